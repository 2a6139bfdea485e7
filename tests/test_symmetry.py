"""The group, how it acts, and that `assert_equivariant` finds what is not symmetric."""

import math
import subprocess
import sys

import mujoco
import numpy as np
import pytest
import torch

from sgrl import symmetry
from sgrl.envs.observation import FEATURES, LimbObservation, join, split
from sgrl.models.batch import LimbBatch
from sgrl.models.states import random_batch
from sgrl.morphology import compile_model, get_body

HOPPER = get_body("3d_hopper_3_shin")
WALKER = get_body("3d_walker_5_foot")
GRAVITY = np.array([0.0, 0.0, -1.0])


def some_observation(limbs: int = 3) -> LimbObservation:
    rng = np.random.default_rng(1)
    target = np.array([0.6, -0.8, 0.0])
    return LimbObservation(
        rng.standard_normal((2, limbs, 6, 3)),
        rng.standard_normal((2, limbs, 17)),
        np.tile(GRAVITY, (2, 1)),
        np.tile(target, (2, 1)),
    )


@pytest.mark.parametrize("group", ["rotation", "reflection", "O_g(3)"])
def test_elements_of_the_group_keep_gravity_and_lengths(group: symmetry.Group) -> None:
    for element in symmetry.sample(group, 20, seed=3):
        assert symmetry.is_in_group(element.matrix)
        np.testing.assert_allclose(symmetry.apply(element.matrix, GRAVITY), GRAVITY)
        sign = np.linalg.det(element.matrix)
        if group != "O_g(3)":
            assert sign == pytest.approx(1 if group == "rotation" else -1)


def test_the_group_is_closed_and_has_both_halves() -> None:
    elements = [element.matrix for element in symmetry.sample("O_g(3)", 10, seed=0)]
    assert {round(np.linalg.det(matrix)) for matrix in elements} == {-1, 1}
    for a in elements:
        for b in elements:
            assert symmetry.is_in_group(a @ b.T)


@pytest.mark.parametrize("group", ["tilt", "O(3)"])
def test_what_moves_gravity_is_orthogonal_but_not_in_the_group(group: symmetry.Group) -> None:
    for element in symmetry.sample(group, 20, seed=5):
        np.testing.assert_allclose(element.matrix.T @ element.matrix, np.eye(3), atol=1e-12)
        assert not symmetry.is_in_group(element.matrix)


def test_samples_are_seeded_and_unknown_groups_refused() -> None:
    a, b, c = (symmetry.sample("O_g(3)", 4, seed=seed) for seed in (7, 7, 8))
    assert all(np.array_equal(x.matrix, y.matrix) for x, y in zip(a, b, strict=True))
    assert not np.array_equal(a[0].matrix, c[0].matrix)
    with pytest.raises(ValueError, match="unknown group 'SO'; there are rotation, reflection"):
        symmetry.sample("SO")  # type: ignore[arg-type]


def test_known_matrices() -> None:
    x, y, z = np.eye(3)
    np.testing.assert_allclose(symmetry.apply(symmetry.rotation(math.pi / 2), x), y, atol=1e-15)
    np.testing.assert_allclose(symmetry.apply(symmetry.reflection(0.0), x + y + z), x - y + z)
    mirror = symmetry.reflection(math.pi / 4)
    np.testing.assert_allclose(symmetry.apply(mirror, x), y, atol=1e-15)
    np.testing.assert_allclose(symmetry.apply(symmetry.tilt(math.pi / 2), y), z, atol=1e-15)
    about_y = symmetry.tilt(math.pi / 2, azimuth=math.pi / 2)
    np.testing.assert_allclose(symmetry.apply(about_y, z), x, atol=1e-15)


def test_acts_alike_on_numpy_torch_flat_and_batch() -> None:
    matrix = symmetry.sample("reflection", 1, seed=2)[0].matrix
    named = some_observation()
    moved = symmetry.transform(named, matrix)
    np.testing.assert_allclose(moved.vectors[1, 2, 4], matrix @ named.vectors[1, 2, 4])
    np.testing.assert_allclose(moved.target[0], matrix @ named.target[0])
    assert np.array_equal(moved.scalars, named.scalars)
    assert np.array_equal(moved.gravity, named.gravity)

    flat = join(named)
    np.testing.assert_allclose(symmetry.transform(flat, matrix), join(moved), atol=1e-6)
    tensor = torch.from_numpy(flat)
    np.testing.assert_allclose(symmetry.transform(tensor, matrix).numpy(), join(moved), atol=1e-6)
    assert np.array_equal(tensor.numpy(), flat), "the input was changed"

    batch = symmetry.transform(LimbBatch.from_flat(tensor, HOPPER), matrix)
    expected = LimbBatch.from_flat(torch.from_numpy(join(moved)), HOPPER)
    torch.testing.assert_close(batch.vectors, expected.vectors)
    torch.testing.assert_close(batch.target, expected.target)
    assert torch.equal(batch.scalars, expected.scalars)
    assert torch.equal(batch.gravity, expected.gravity)
    assert batch.layout is expected.layout


def test_a_tilt_leaves_gravity_in_a_flat_observation() -> None:
    flat = join(some_observation())
    tilted = split(symmetry.transform(flat, symmetry.tilt(1.0)), 3)
    assert np.array_equal(tilted.gravity, split(flat, 3).gravity)
    with pytest.raises(ValueError, match="41 numbers per limb; 40 is not a multiple"):
        symmetry.transform(np.zeros(40), np.eye(3))


def test_rows_may_each_have_their_own_matrix() -> None:
    matrices = np.stack([element.matrix for element in symmetry.sample("O_g(3)", 2, seed=4)])
    named = some_observation()
    moved = symmetry.transform(named, matrices)
    for row in range(2):
        alone = symmetry.transform(LimbObservation(*(part[row] for part in named)), matrices[row])
        for a, b in zip(moved, alone, strict=True):
            np.testing.assert_allclose(a[row], b)

    batch = random_batch([HOPPER, WALKER])
    together = symmetry.transform(batch, torch.from_numpy(matrices))
    for row in range(2):
        alone = symmetry.transform(batch, matrices[row])
        mine = batch.layout.limb_row == row
        torch.testing.assert_close(together.vectors[mine], alone.vectors[mine])
        torch.testing.assert_close(together.target[row], alone.target[row])


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_frames_bring_a_direction_onto_x(kind: str) -> None:
    directions = np.array([[0.3, -2.0, 5.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    given = directions if kind == "numpy" else torch.from_numpy(directions)
    turns = np.asarray(symmetry.rotation_onto_x(given))
    assert all(symmetry.is_in_group(turn) for turn in turns)
    np.testing.assert_allclose(np.linalg.det(turns), 1.0)
    length = math.hypot(0.3, 2.0)
    np.testing.assert_allclose(turns[0] @ directions[0], [length, 0.0, 5.0], atol=1e-12)
    np.testing.assert_allclose(turns[1] @ directions[1], [1.0, 0.0, 0.0], atol=1e-12)
    assert np.array_equal(turns[2], np.eye(3)), "a vertical direction has no turn"
    assert np.array_equal(turns[3], np.eye(3))


def test_turned_and_shifted_states_are_the_same_body_elsewhere() -> None:
    model = compile_model(WALKER)
    rng = np.random.default_rng(0)
    data, turned = mujoco.MjData(model), mujoco.MjData(model)
    data.qpos[:] = rng.standard_normal(model.nq)
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    data.qvel[:] = rng.standard_normal(model.nv)
    shift = np.array([3.0, -7.0])
    turned.qpos[:], turned.qvel[:] = symmetry.rotate_state(data.qpos, data.qvel, 0.7)
    turned.qpos[:] = symmetry.shift_state(turned.qpos, shift)
    for each in (data, turned):
        mujoco.mj_step1(model, each)
    matrix = symmetry.rotation(0.7)
    there = symmetry.apply(matrix, data.xpos[1:]) + np.append(shift, 0.0)
    np.testing.assert_allclose(turned.xpos[1:], there, atol=1e-12)
    # cvel is (angular, linear), both in the world frame's orientation.
    for part in (slice(0, 3), slice(3, 6)):
        moved = symmetry.apply(matrix, data.cvel[1:, part])
        np.testing.assert_allclose(turned.cvel[1:, part], moved, atol=1e-12)


def length_of_velocity(batch: LimbBatch) -> torch.Tensor:
    return batch.vectors[:, 1].norm(dim=-1)


def toward_target(batch: LimbBatch) -> torch.Tensor:
    target = batch.layout.to_limbs(batch.target)
    return (batch.vectors[:, 1] * target).sum(-1, keepdim=True) * target


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_assert_equivariant_accepts_what_is_symmetric(dtype: torch.dtype) -> None:
    batch = random_batch([HOPPER, WALKER], 3, dtype=dtype)
    error = symmetry.assert_equivariant(length_of_velocity, batch)
    assert error < symmetry.TOLERANCES[str(dtype).removeprefix("torch.")]
    symmetry.assert_equivariant(toward_target, batch, output="equivariant", group="O(3)")
    symmetry.assert_equivariant(lambda b: (length_of_velocity(b), b.scalars), batch, group="O(3)")


@pytest.mark.parametrize(
    ("function", "group", "output", "words"),
    [
        (lambda b: b.vectors[:, 1, 0], "rotation", "invariant", "rotation by .* about the vert"),
        (lambda b: b.vectors[:, 1, 1] ** 2, "reflection", "invariant", "reflection in the"),
        (lambda b: b.vectors[:, 1, 2], "tilt", "invariant", "tilt by .* horizontal axis"),
        (lambda b: b.vectors[:, 1, 2], "O(3)", "invariant", "in space"),
        (toward_target, "O_g(3)", "invariant", "changes it by"),
        (lambda b: length_of_velocity(b)[:, None].expand(-1, 3), "O_g(3)", "equivariant", "by"),
        (
            lambda b: torch.linalg.cross(b.vectors[:, 1], b.vectors[:, 2]),
            "O_g(3)",
            "equivariant",
            "reflection",
        ),
        (lambda b: b.vectors[:, 1, 0] * torch.nan, "O_g(3)", "invariant", "by nan"),
    ],
)
def test_assert_equivariant_rejects_what_is_not(function, group, output, words) -> None:
    batch = random_batch([HOPPER, WALKER], 3)
    with pytest.raises(AssertionError, match=words):
        symmetry.assert_equivariant(function, batch, group=group, output=output)


def test_assert_equivariant_reports_the_size_of_the_error() -> None:
    batch = random_batch([HOPPER])
    slightly = lambda b: length_of_velocity(b) + 1e-3 * b.vectors[:, 1, 0]  # noqa: E731
    error = symmetry.measure(slightly, batch).error
    assert 1e-5 < error < 1e-2
    assert symmetry.assert_equivariant(slightly, batch, tolerance=0.01) == error


def test_assert_equivariant_takes_flat_observations_of_numpy_policies() -> None:
    flat = join(some_observation())

    def target_speed(obs):
        named = split(obs, obs.shape[-1] // FEATURES)
        return (named.vectors[..., 0, 1, :] * named.target).sum(-1)

    symmetry.assert_equivariant(target_speed, flat)
    with pytest.raises(AssertionError, match="allowed in float32"):
        symmetry.assert_equivariant(lambda obs: obs[:, :3], flat)


def test_unclear_requests_are_refused() -> None:
    batch = random_batch([HOPPER])
    with pytest.raises(ValueError, match="there are invariant and equivariant"):
        symmetry.measure(length_of_velocity, batch, output="scalar")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="samples must be 1 or more"):
        symmetry.measure(length_of_velocity, batch, samples=0)
    with pytest.raises(ValueError, match="no tolerance is known for bfloat16"):
        symmetry.assert_equivariant(lambda b: length_of_velocity(b).bfloat16(), batch)


def test_the_group_needs_no_torch() -> None:
    code = (
        "import sys, numpy; from sgrl import symmetry; "
        "symmetry.transform(numpy.zeros((2, 41)), symmetry.rotation(1.0)); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
