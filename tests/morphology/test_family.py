"""Families: what the bodies of one have in common, and one of your own from outside."""

from dataclasses import replace

import numpy as np
import pytest

import sgrl
from sgrl.envs import Health, Task, task_for
from sgrl.morphology import FAMILIES, Family, body_names, family_of, get_body, register_family
from sgrl.morphology.families import OTHER_COLOR, color_of

HORIZONS = {"hopper": 2.0, "walker": 4.0, "humanoid": 0.8, "cheetah": 2.0}
SCORES = {"hopper": 2_500, "walker": 4_500, "humanoid": 10_000, "cheetah": 15_000}


def test_there_are_four_families_with_their_full_bodies():
    assert list(FAMILIES) == ["hopper", "walker", "humanoid", "cheetah"]
    for name, family in FAMILIES.items():
        assert family.name == name
        assert family.body is get_body(family.body.name)
        assert family.body.name.endswith("_full")
        assert (family.horizon, family.score) == (HORIZONS[name], SCORES[name])
    assert len({family.color for family in FAMILIES.values()} | {OTHER_COLOR}) == 5


@pytest.mark.parametrize("name", body_names())
def test_every_body_has_its_family(name):
    body = get_body(name)
    family = family_of(body)
    assert family is FAMILIES[name.split("_")[1]]
    assert family.task(body) == task_for(body)
    assert color_of(body) == family.color


@pytest.mark.parametrize("name", body_names())
def test_actuated_motors_and_the_time_of_a_step(name):
    body = get_body(name)
    env = sgrl.make_env(body).unwrapped
    np.testing.assert_array_equal(body.actuated, env.model.actuator_gear[:, 0] != 0)
    assert body.dt == env.dt
    assert body.actuated is get_body(name).actuated
    with pytest.raises(ValueError, match="read-only"):
        body.actuated[0] = True


def test_a_torso_alone_has_no_motors():
    torso = get_body("3d_walker_7_full").cut("right_thigh", "left_thigh")
    assert torso.actuated.shape == (0,)


@pytest.fixture
def dog():
    """A family as a user's own file would register it."""
    cheetah = FAMILIES["cheetah"].body
    limbs = [limb.name for limb in cheetah.limbs if limb.name in ("upper_tail",)]
    body = replace(cheetah.cut(*limbs), name="dog_13_full", family="dog")
    family = Family(
        name="dog",
        body=body,
        task=lambda body: Task(
            alive_bonus=2.0,
            rewards_forward=False,
            health=Health(min_height=0.3),
            position_noise=0.01,
            velocity_noise=0.01,
        ),
        color=(0.5, 0.3, 0.2, 1.0),
        horizon=2.0,
        score=1_000.0,
    )
    register_family(family)
    yield family
    del FAMILIES["dog"]


def test_a_family_of_ones_own_is_known_everywhere(dog):
    register_family(dog)
    assert get_body("dog_13_full") is dog.body
    three = get_body("dog_13_full-left_ffoot")
    assert three.num_limbs == 12
    env = sgrl.make_vec(["dog_13_full", three], 2, variant="v2")
    env.reset(seed=0)
    _, rewards, *_, infos = env.step(np.zeros(env.action_space.shape))
    assert (infos["target"] != 0).any()
    assert (np.abs(infos["reward_alive"] - 2.0) < 1e-12).all()
    assert rewards.shape == (4,)
    assert color_of(three) == dog.color


def test_families_that_can_not_be(dog):
    with pytest.raises(ValueError, match="there is a family 'dog' already"):
        register_family(replace(dog, score=1.0))
    with pytest.raises(ValueError, match="is of the family 'dog', not 'cat'"):
        replace(dog, name="cat")
    with pytest.raises(ValueError, match="dog: horizon must be above 0"):
        replace(dog, horizon=0.0)


def test_a_body_without_a_family():
    odd = replace(get_body("3d_walker_7_full"), family="odd")
    assert family_of(odd) is None
    assert color_of(odd) == OTHER_COLOR
    with pytest.raises(ValueError, match="no task is known for the family 'odd'"):
        sgrl.make_env(odd)
