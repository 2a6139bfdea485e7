"""The paper's names, collections and splits."""

import pytest

import sgrl
from sgrl.morphology import (
    COLLECTIONS,
    TABLE,
    get_body,
    get_collection,
    mirror_of,
    resolve_bodies,
    table,
)
from sgrl.morphology.table import Entry

SIZES = {
    "3d_hopper++": (3, 0),
    "3d_walker++": (6, 2),
    "3d_humanoid++": (6, 2),
    "3d_cheetah++": (8, 2),
    "3d_whh++": (15, 4),
    "3d_cwhh++": (23, 6),
}
ZERO_SHOT = {
    "3d_walker_3_left_knee_right_knee",
    "3d_walker_6_right_foot",
    "3d_humanoid_7_left_leg",
    "3d_humanoid_8_right_knee",
    "3d_cheetah_11_leftbkneen_rightffoot",
    "3d_cheetah_12_tail_leftffoot",
}


def test_collections_have_the_papers_sizes():
    assert {name: (len(c.train), len(c.zero_shot)) for name, c in COLLECTIONS.items()} == SIZES


def test_a_body_is_a_row(monkeypatch):
    row = Entry("3d_walker_4_feet_left_knee", ("left_shin", "right_foot"))
    monkeypatch.setitem(table.ENTRIES, row.name, row)
    body = get_body(row.name)
    assert (body.num_limbs, body.family) == (4, "walker")
    env = sgrl.make_env(row.name)
    assert env.reset(seed=0)[0].shape == env.observation_space.shape


def test_the_held_out_bodies():
    assert set(get_collection("3d_cwhh++").zero_shot) == ZERO_SHOT
    assert {entry.name for entry in TABLE if entry.split == "zero_shot"} == ZERO_SHOT


def test_names_say_how_many_limbs():
    for entry in TABLE:
        assert get_body(entry.name).num_limbs == int(entry.name.split("_")[2])
        assert get_body(entry.name).name == entry.name


def test_bodies_from_names_collections_and_values():
    own = get_body("3d_walker_7_full").cut("left_foot")
    bodies = resolve_bodies(["3d_hopper++", "3d_walker_7_full", own])
    assert [body.name for body in bodies][:3] == list(get_collection("3d_hopper++").train)
    assert bodies[3:] == (get_body("3d_walker_7_full"), own)


def test_cut_bodies_by_name():
    own = get_body("3d_cheetah_14_full").cut("left_fthigh", "upper_tail")
    assert get_body(own.name) == own
    assert resolve_bodies([own.name]) == (own,)
    with pytest.raises(ValueError, match="has no limb 'left_flipper'"):
        get_body("3d_cheetah_14_full-left_flipper")
    with pytest.raises(ValueError, match="unknown body '3d_cheetah_15_full'"):
        resolve_bodies(["3d_cheetah_15_full-left_ffoot"])
    # One that is held out is not trained on under another name.
    with pytest.raises(ValueError, match="is 3d_walker_6_right_foot: name that one"):
        get_body("3d_walker_7_full-right_foot")
    assert get_body("3d_hopper_5_full").splice("shin").name != "3d_hopper_5_full-shin"


def test_mirror_images_by_name():
    sided = get_body("3d_walker_6_right_foot")
    image = get_body("3d_walker_6_right_foot_mirrored")
    assert image == mirror_of(sided).body
    assert "left_foot" not in image.limb_names
    assert "right_foot" in image.limb_names
    assert mirror_of(image).body == sided
    assert resolve_bodies([image.name]) == (image,)
    with pytest.raises(ValueError, match="image of 3d_walker_7_full is 3d_walker_7_full: name"):
        get_body("3d_walker_7_full_mirrored")
    with pytest.raises(ValueError, match="is 3d_humanoid_7_left_leg: name that one"):
        get_body("3d_humanoid_7_right_leg_mirrored")
    with pytest.raises(ValueError, match="did you mean"):
        get_body("3d_walker_7_ful_mirrored")


def test_mirror_images_of_a_collection():
    """Of its bodies with two different sides, without those that are held out."""
    names = [body.name for body in resolve_bodies(["3d_walker++_mirrored"])]
    assert names == [
        "3d_walker_2_right_leg_left_knee_mirrored",
        "3d_walker_3_left_leg_right_foot_mirrored",
        "3d_walker_4_right_knee_left_foot_mirrored",
        "3d_walker_5_left_knee_mirrored",
    ]
    assert [body.name for body in resolve_bodies(["3d_whh++_mirrored"])] == names
    for name in ("3d_hopper++", "3d_humanoid++"):
        with pytest.raises(ValueError, match="have names of their own"):
            resolve_bodies([f"{name}_mirrored"])


@pytest.mark.parametrize("lookup", [get_body, lambda name: resolve_bodies([name])])
def test_an_unknown_body_names_the_nearest(lookup):
    with pytest.raises(ValueError, match=r"'3d_walker_full'; did you mean .*3d_walker_7_full"):
        lookup("3d_walker_full")


def test_an_unknown_collection_names_the_nearest():
    with pytest.raises(ValueError, match=r"did you mean 3d_walker\+\+"):
        get_collection("3d_walkers++")
