"""In physics: a turned start and target give the turned trajectory, all the same actions.

20 steps, four physics steps each. Quarter turns are tested in the environments as they are,
other angles with friction that is the same in all directions (`sgrl.models.certificate` says why).
"""

import math

import pytest
import torch
from torch import Tensor, nn

from sgrl.models.batch import LimbBatch
from sgrl.models.certificate import paired_rollouts
from sgrl.models.methods import make_actor
from sgrl.morphology import body_names, get_body

WALKER = get_body("3d_walker_7_full")


def actor_of(method: str) -> nn.Module:
    torch.manual_seed(0)
    return make_actor(method).double()


@pytest.fixture(scope="module")
def set_actor() -> nn.Module:
    return actor_of("set")


@pytest.mark.parametrize("name", body_names())
def test_quarter_turns_in_the_environment_as_it_is(set_actor: nn.Module, name: str) -> None:
    quarters = 1 + body_names().index(name) % 3
    gap = paired_rollouts(set_actor, get_body(name), quarters * math.pi / 2)
    # Measured: 1e-10 at most, mostly 1e-15.
    assert gap.action < 1e-6
    assert gap.state < 1e-6


@pytest.mark.parametrize("name", body_names())
def test_any_angle_on_a_floor_that_is_the_same_in_all_directions(
    set_actor: nn.Module, name: str
) -> None:
    angle = 0.3 + 0.2 * body_names().index(name)
    gap = paired_rollouts(set_actor, get_body(name), angle, round_cones=True)
    # Measured: 1e-5 at most. Contact is chaotic, and rounding differs between machines.
    assert gap.action < 1e-3
    assert gap.state < 1e-3


@pytest.mark.parametrize("method", ["swat+tn", "smp+hn"])
def test_frames_turn_with_the_world_too(method: str) -> None:
    gap = paired_rollouts(actor_of(method), WALKER, 2.0, round_cones=True)
    assert gap.action < 1e-3
    assert gap.state < 1e-3


@pytest.mark.parametrize("method", ["swat", "smp", "set-in_invar"])
def test_without_the_symmetry_the_twin_goes_its_own_way(method: str) -> None:
    gap = paired_rollouts(actor_of(method), WALKER, 2.0, round_cones=True)
    assert gap.action > 0.05
    assert gap.state > 0.05


def test_friction_under_spheres_has_only_quarter_turns() -> None:
    """The world's own asymmetry: a humanoid falls, and nobody acts."""
    humanoid = get_body("3d_humanoid_9_full")

    def nobody(batch: LimbBatch) -> Tensor:
        return torch.zeros(batch.layout.num_limbs, 3)

    eighth, quarter = math.pi / 4, math.pi / 2
    assert paired_rollouts(nobody, humanoid, eighth, steps=120).state > 1e-3
    assert paired_rollouts(nobody, humanoid, quarter, steps=120).state < 1e-9
    assert paired_rollouts(nobody, humanoid, eighth, steps=120, round_cones=True).state < 1e-9
