"""The limb batch: names for flat observations, rows of different bodies, found layouts."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from sgrl.envs.observation import FEATURES, split
from sgrl.models.batch import LimbBatch, layout_of
from sgrl.models.layout import CACHED_LAYOUTS, CACHED_ROWS, _layouts
from sgrl.models.methods import make_actor
from sgrl.models.states import random_batch
from sgrl.morphology import Morphology, get_body

WALKER = get_body("3d_walker_7_full")
HOPPER = get_body("3d_hopper_3_shin")
PAIR = get_body("3d_walker_2_right_leg_left_knee")


def test_layout_of_a_mixed_batch():
    layout = layout_of((WALKER, HOPPER), [1, 0, 1])
    assert (layout.num_rows, layout.num_limbs, layout.max_limbs) == (3, 13, 7)
    assert layout.body_index.tolist() == [1, 0, 1]
    assert layout.counts.tolist() == [3, 7, 3]
    assert layout.limb_row.tolist() == [0] * 3 + [1] * 7 + [2] * 3
    assert layout.limb_index.tolist() == [*range(3), *range(7), *range(3)]
    assert layout.is_torso.nonzero().flatten().tolist() == [0, 3, 10]
    assert layout.torsos.tolist() == [0, 3, 10]
    assert layout.mask.tolist() == [[True] * 3 + [False] * 4, [True] * 7, [True] * 3 + [False] * 4]
    assert layout.parents.tolist() == [0, 0, 1, 3, 3, 4, 5, 3, 7, 8, 10, 10, 11]
    assert [level.tolist() for level in layout.levels] == [
        [0, 3, 10],
        [1, 4, 7, 11],
        [2, 5, 8, 12],
        [6, 9],
    ]


def test_pad_and_back():
    layout = layout_of((WALKER, HOPPER), [1, 0])
    x = torch.arange(20.0, requires_grad=True).view(10, 2)
    padded = layout.pad(x)
    assert padded.shape == (2, 7, 2)
    assert padded[0, 3:].abs().sum() == 0
    assert torch.equal(padded[1], x[3:])
    assert torch.equal(layout.unpad(padded), x)
    double = x.detach().double().requires_grad_()
    assert torch.autograd.gradcheck(layout.pad, double)
    assert torch.autograd.gradcheck(layout.unpad, layout.pad(double).detach().requires_grad_())


def test_padding_is_free_without_gaps():
    layout = layout_of((WALKER,), [0, 0, 0])
    x = torch.randn(21, 4)
    assert layout.pad(x).data_ptr() == x.data_ptr()
    assert layout.unpad(layout.pad(x)).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("rows", [[1, 0, 1], [1, 1]])
def test_rows_and_limbs(rows):
    layout = layout_of((WALKER, HOPPER), rows)
    values = torch.randn(layout.num_rows, 2)
    spread = layout.to_limbs(values)
    for row, limb in zip(layout.limb_row, spread, strict=True):
        assert torch.equal(limb, values[row])
    torch.testing.assert_close(layout.row_mean(spread), values)
    torch.testing.assert_close(layout.row_sum(spread), values * layout.counts[:, None])
    torch.testing.assert_close(layout.row_mean(spread[:, 0]), values[:, 0])


def test_actions_to_rows_and_back():
    layout = layout_of((WALKER, HOPPER), [1, 0])
    limbs = torch.randn(10, 3)
    limbs[layout.is_torso] = 0.0
    rows = layout.actions_to_rows(limbs)
    assert rows.shape == (2, 18)
    assert torch.equal(rows[0, :6], limbs[1:3].flatten())
    assert rows[0, 6:].abs().sum() == 0
    assert torch.equal(layout.actions_to_limbs(rows), limbs)
    wider = torch.nn.functional.pad(rows, (0, 9), value=7.0)
    assert torch.equal(layout.actions_to_limbs(wider), limbs)
    with pytest.raises(ValueError, match=r"\(2, 18\)"):
        layout.actions_to_limbs(rows[:, :-1])


def with_knees_that_only_bend() -> Morphology:
    """A walker whose shins have one hinge instead of three."""
    limbs = [
        replace(limb, hinges=limb.hinges[1:2], hinge_names="y") if "shin" in limb.name else limb
        for limb in WALKER.limbs
    ]
    return replace(WALKER, name="knees", limbs=tuple(limbs))


@pytest.mark.parametrize("rows", [[1], [0, 1, 2, 1]], ids=["alone", "mix"])
def test_actions_of_limbs_with_fewer_hinges(rows):
    knees = with_knees_that_only_bend()
    bodies = (WALKER, knees, HOPPER)
    layout = layout_of(bodies, rows)
    limbs = torch.rand(layout.num_limbs, 3) + 0.5
    actions = layout.actions_to_rows(limbs)
    assert actions.shape == (len(rows), max(bodies[row].action_dim for row in rows))
    for row, body in enumerate(rows):
        own = limbs[layout.limb_row == row][torch.tensor(bodies[body].hinge_mask)]
        assert torch.equal(actions[row, : len(own)], own)
        assert actions[row, len(own) :].abs().sum() == 0
    assert torch.equal(layout.actions_to_limbs(actions), limbs * layout.hinges)
    motors = torch.from_numpy(knees.by_limb(knees.actuated))
    assert torch.equal(layout.actuated[layout.limb_row == rows.index(1)], motors)


def test_an_actor_gives_nothing_where_there_is_no_hinge():
    batch = random_batch((WALKER, with_knees_that_only_bend()), dtype=torch.float32)
    action = make_actor("set")(batch)
    assert torch.equal(action == 0, ~batch.layout.hinges)


def test_from_flat_names_the_same_numbers_as_split():
    flat = torch.randn(4, 7 * FEATURES)
    batch = LimbBatch.from_flat(flat, WALKER)
    expected = split(flat.numpy(), 7)
    np.testing.assert_array_equal(batch.vectors, expected.vectors.reshape(28, 6, 3))
    np.testing.assert_array_equal(batch.scalars, expected.scalars.reshape(28, 17))
    np.testing.assert_array_equal(batch.gravity, expected.gravity)
    np.testing.assert_array_equal(batch.target, expected.target)
    assert torch.equal(batch.fields[5, :, 0], batch.gravity[0])
    assert torch.equal(batch.fields[20, :, 1], batch.target[2])


def test_from_padded_equals_each_body_alone_and_ignores_the_padding():
    walker, hopper = torch.randn(1, 7 * FEATURES), torch.randn(2, 3 * FEATURES)
    flat = torch.full((3, 9 * FEATURES), torch.nan)
    flat[1, : 7 * FEATURES], flat[[0, 2], : 3 * FEATURES] = walker[0], hopper
    mixed = LimbBatch.from_padded(flat, (WALKER, HOPPER), [1, 0, 1])
    alone = LimbBatch.from_flat(walker, WALKER), LimbBatch.from_flat(hopper, HOPPER)
    for part in ("vectors", "scalars"):
        a, b = (getattr(batch, part) for batch in alone)
        assert torch.equal(getattr(mixed, part), torch.cat((b[:3], a, b[3:])))
    assert torch.equal(mixed.target, torch.cat([b.target for b in alone])[[1, 0, 2]])


@pytest.mark.parametrize("body_index", [[0, 1, 1, 0, 1], [0] * 5], ids=["mix", "alike"])
def test_select_is_a_batch_of_those_rows(body_index):
    rows, body_index = np.array([4, 0, 2]), np.array(body_index)
    flat = torch.randn(5, 7 * FEATURES)
    whole = LimbBatch.from_padded(flat, (WALKER, HOPPER), body_index)
    expected = LimbBatch.from_padded(flat[rows], (WALKER, HOPPER), body_index[rows])
    selected = whole.select(rows)
    assert selected.layout is expected.layout
    for part in ("vectors", "scalars", "gravity", "target", "fields", "flat"):
        assert torch.equal(getattr(selected, part), getattr(expected, part)), part
    turned = selected.replace(vectors=2 * selected.vectors)
    assert torch.equal(turned.squashed, expected.replace(vectors=2 * expected.vectors).squashed)
    assert not torch.equal(turned.squashed, selected.squashed)
    assert not torch.equal(turned.flat, selected.flat)


def test_squashed_vectors_are_shorter_and_point_the_same_way():
    batch = LimbBatch.from_flat(torch.randn(2, 7 * FEATURES) * 20, WALKER)
    length, squashed = batch.vectors.norm(dim=-1), batch.squashed.norm(dim=-1)
    assert (squashed <= length).all()
    assert squashed.max() < 2 * length.max().sqrt()
    torch.testing.assert_close(batch.squashed * (length / squashed).unsqueeze(-1), batch.vectors)


def test_wrong_shapes_are_refused_with_the_right_ones():
    with pytest.raises(ValueError, match=r"7 limbs and observes \(rows, 287\)"):
        LimbBatch.from_flat(torch.zeros(2, 286), WALKER)
    with pytest.raises(ValueError, match="largest body has 7 limbs, 287 numbers"):
        LimbBatch.from_padded(torch.zeros(1, 286), (WALKER,), [0])
    with pytest.raises(ValueError, match="2 rows expected"):
        LimbBatch.from_padded(torch.zeros(1, 287), (WALKER,), [0, 0])
    with pytest.raises(ValueError, match="point into the 1 bodies"):
        layout_of((WALKER,), [0, 1])


def test_equal_layouts_are_one_object():
    layout = layout_of((WALKER, PAIR), [0, 1, 1])
    assert layout_of([WALKER, PAIR], torch.tensor([0, 1, 1])) is layout
    assert layout_of(copy.deepcopy((WALKER, PAIR)), np.array([0, 1, 1])) is layout
    assert layout_of((WALKER, PAIR), [1, 0, 1]) is not layout
    assert layout_of((PAIR, WALKER), [0, 1, 1]) is not layout
    flat = torch.zeros(5, 7 * FEATURES)
    assert LimbBatch.from_flat(flat, WALKER).layout is LimbBatch.from_flat(flat, WALKER).layout


def test_the_cache_of_layouts_is_bounded():
    for rows in range(1, CACHED_LAYOUTS + 50):
        layout_of((HOPPER,), [0] * rows)
    assert len(_layouts) == CACHED_LAYOUTS
    for first in range(6):
        layout_of((HOPPER, WALKER), [0] * (first + 1) + [1] * (CACHED_ROWS // 4))
    mixed = [layout for layout in _layouts.values() if not layout.alike]
    assert len(mixed) == 3
