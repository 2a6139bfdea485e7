"""The symmetry of walking under gravity: its group, its frames, and a test for models.

The group O_g(3) leaves gravity alone: rotations about the vertical and reflections in
vertical planes. An element acts on an observation through every vector and the target
direction; gravity and the scalars stay. Angular velocities and hinge axes are treated as
ordinary (polar) vectors under reflection, as in the paper's proofs; a physical mirror
image would flip them once more.

`tilt` and `O(3)` lie outside the group. They act in the same way, on vectors and target
only, and serve to show what a model must *not* be blind to.

Everything here works on NumPy arrays and torch tensors alike and needs only NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from sgrl.envs.observation import FEATURES, GRAVITY, SCALARS, LimbObservation

Array = NDArray[np.float64]
Observation = TypeVar("Observation")
Group = Literal["rotation", "reflection", "O_g(3)", "tilt", "O(3)"]
Output = Literal["invariant", "equivariant"]
Symmetry = Literal["translation", "rotation", "reflection", "tilt", "mirror"]
"""What may leave a method's actions alone; a tilt should not. The mirror is the physical one."""

GROUPS: tuple[Group, ...] = get_args(Group)
SYMMETRIES: tuple[Symmetry, ...] = get_args(Symmetry)
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}
"""Largest relative error at which a function still counts as symmetric, by its dtype."""


@dataclass(frozen=True, eq=False)
class Transformation:
    """An orthogonal matrix and what to call it in a message."""

    name: str
    matrix: Array
    """(3, 3), orthogonal."""


def rotation(angle: float) -> Array:
    """(3, 3): a rotation about the vertical by `angle` radians, counter-clockwise from above."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def reflection(angle: float) -> Array:
    """(3, 3): a mirror image in the vertical plane that contains the direction `angle`."""
    c, s = math.cos(2 * angle), math.sin(2 * angle)
    return np.array([[c, s, 0.0], [s, -c, 0.0], [0.0, 0.0, 1.0]])


def tilt(angle: float, azimuth: float = 0.0) -> Array:
    """(3, 3): a rotation by `angle` about the horizontal axis in the direction `azimuth`.

    Gravity would have to rotate with it: not in O_g(3) unless the angle is 0.
    """
    c, s = math.cos(angle), math.sin(angle)
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    yaw = rotation(azimuth)
    tilted: Array = yaw @ about_x @ yaw.T
    return tilted


def random_orthogonal(rng: np.random.Generator) -> Array:
    """(3, 3): uniform over all of O(3)."""
    q, r = np.linalg.qr(rng.standard_normal((3, 3)))
    # Without the signs of r the distribution would not be uniform.
    return np.asarray(q * np.sign(np.diagonal(r)))


def is_in_group(matrix: Array, tolerance: float = 1e-9) -> bool:
    """Whether a (3, 3) matrix is in O_g(3): orthogonal, and gravity stays where it is."""
    vertical = np.array([0.0, 0.0, 1.0])
    return bool(
        np.allclose(matrix.T @ matrix, np.eye(3), atol=tolerance, rtol=0.0)
        and np.allclose(matrix @ vertical, vertical, atol=tolerance, rtol=0.0)
    )


def sample(group: Group = "O_g(3)", count: int = 1, seed: int = 0) -> list[Transformation]:
    """`count` random elements; of O_g(3), rotations and reflections take turns."""
    if group not in GROUPS:
        raise ValueError(f"unknown group {group!r}; there are {', '.join(GROUPS)}")
    rng = np.random.default_rng(seed)
    return [_draw(group, i, rng) for i in range(count)]


def _draw(group: Group, index: int, rng: np.random.Generator) -> Transformation:
    if group == "O_g(3)":
        group = ("rotation", "reflection")[index % 2]
    if group == "O(3)":
        matrix = random_orthogonal(rng)
        kind = "rotation" if np.linalg.det(matrix) > 0 else "rotation and reflection"
        return Transformation(f"{kind} in space {matrix.round(3).tolist()}", matrix)
    angle = rng.uniform(0.0, 2 * math.pi)
    degrees = f"{math.degrees(angle):.1f}°"
    if group == "rotation":
        return Transformation(f"rotation by {degrees} about the vertical", rotation(angle))
    if group == "reflection":
        return Transformation(f"reflection in the vertical plane at {degrees}", reflection(angle))
    # A slight tilt would show little, whatever the model.
    slope = rng.uniform(math.radians(20.0), math.radians(160.0))
    name = f"tilt by {math.degrees(slope):.1f}° about the horizontal axis at {degrees}"
    return Transformation(name, tilt(slope, angle))


def apply(matrix: Any, vectors: Any) -> Any:
    """O·v for vectors (..., 3) and a matrix (3, 3), or (..., 3, 3) that broadcasts.

    The result is of the vectors' kind, dtype and device.
    """
    matrix = _like(matrix, vectors)
    if matrix.ndim == 2:
        return vectors @ matrix.T
    return (matrix * vectors[..., None, :]).sum(-1)


def transform(observation: Observation, matrix: Any) -> Observation:
    """What is observed after a transformation of the world; gravity and scalars stay.

    Takes a `LimbObservation`, a `LimbBatch` or a flat observation (..., limbs * 41), each
    NumPy or torch. For the first two the matrix may also differ by row: (..., 3, 3) for the
    batch dimensions of a `LimbObservation`, (rows, 3, 3) for a `LimbBatch`.
    """
    # `Any` from here on: the three kinds have no common base.
    given: Any = observation
    result: Any
    if isinstance(given, LimbObservation):
        matrix = _like(matrix, given.vectors)
        per_vector = matrix if matrix.ndim == 2 else matrix[..., None, None, :, :]
        vectors = apply(per_vector, given.vectors)
        result = given._replace(vectors=vectors, target=apply(matrix, given.target))
    elif hasattr(given, "vectors"):
        matrix = _like(matrix, given.vectors)
        if matrix.ndim == 2:
            vectors = given.vectors @ matrix.T
        else:
            # Sums over the coordinate and not a product of matrices: these are tiny and many, and
            # where products run in bfloat16 they would lose most of what is observed.
            rows = given.layout.to_limbs(matrix)[..., None, :, :]
            vectors = (rows * given.vectors[..., None, :]).sum(-1)
        result = given.replace(vectors=vectors, target=apply(matrix, given.target))
    else:
        result = _transform_flat(given, matrix)
    return result  # type: ignore[no-any-return]


def _transform_flat(flat: Any, matrix: Any) -> Any:
    if flat.shape[-1] % FEATURES:
        raise ValueError(
            f"a flat observation has {FEATURES} numbers per limb; {flat.shape[-1]} is not a "
            "multiple of that"
        )
    limbs = flat.reshape(*flat.shape[:-1], -1, FEATURES)
    rotated = limbs.clone() if hasattr(limbs, "clone") else limbs.copy()
    vectors = limbs[..., : SCALARS.start].reshape(*limbs.shape[:-1], -1, 3)
    rotated[..., : SCALARS.start] = apply(matrix, vectors).reshape(*limbs.shape[:-1], -1)
    rotated[..., GRAVITY] = limbs[..., GRAVITY]
    return rotated.reshape(flat.shape)


def rotation_onto_x(direction: Any) -> Any:
    """(..., 3, 3): the rotation about the vertical that brings (..., 3) above or onto the x axis.

    This is how a frame is entered: `transform(batch, rotation_onto_x(batch.target))` is the
    batch as seen by one who faces the target. A vertical direction has no such rotation and
    gets the identity.
    """
    x, y = direction[..., 0], direction[..., 1]
    squared = x * x + y * y
    vertical = squared < 1e-12
    length = (squared + vertical) ** 0.5
    c, s = (~vertical * x + vertical) / length, ~vertical * y / length
    matrix = _zeros((*direction.shape, 3), direction)
    matrix[..., 0, 0], matrix[..., 0, 1] = c, s
    matrix[..., 1, 0], matrix[..., 1, 1] = -s, c
    matrix[..., 2, 2] = 1.0
    return matrix


def rotate_state(qpos: Array, qvel: Array, angle: float) -> tuple[Array, Array]:
    """A MuJoCo state of a body rotated about the world's vertical axis, by `angle` radians.

    The free joint's place, orientation and linear velocity rotate; its angular velocity is in
    the torso's own frame and stays, like all hinges. Rotate the target with `rotation(angle)`.
    """
    qpos, qvel = qpos.copy(), qvel.copy()
    matrix = rotation(angle)
    qpos[:3], qvel[:3] = matrix @ qpos[:3], matrix @ qvel[:3]
    c, s = math.cos(angle / 2), math.sin(angle / 2)
    w, x, y, z = qpos[3:7]
    qpos[3:7] = c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w
    return qpos, qvel


def shift_state(qpos: Array, shift: Array) -> Array:
    """A MuJoCo position with the body moved on the ground by `shift` (2,), in metres."""
    qpos = qpos.copy()
    qpos[:2] += shift
    return qpos


@dataclass(frozen=True)
class Measurement:
    """The largest error found, and the transformation that brought it out."""

    error: float
    """max |f(O·x) - O·f(x)| / max |f(x)|, O·f(x) being f(x) for an invariant output."""
    transformation: Transformation
    dtype: str
    """The dtype of the function's output, such as float64."""


def measure(
    function: Callable[[Any], Any],
    inputs: Any,
    *,
    group: Group = "O_g(3)",
    output: Output = "invariant",
    samples: int = 8,
    seed: int = 0,
) -> Measurement:
    """The largest relative error of `function` under `samples` elements of a group.

    `function` takes what `inputs` is: a `LimbBatch`, a `LimbObservation` or a flat
    observation. It returns an array, or a tuple of them: invariant (actions, Q), or
    equivariant vectors (..., 3) (torques).
    """
    if output not in get_args(Output):
        raise ValueError(f"unknown output {output!r}; there are invariant and equivariant")
    if samples < 1:
        raise ValueError(f"samples must be 1 or more, not {samples}")
    before = _parts(function(inputs))
    worst: Measurement | None = None
    for element in sample(group, samples, seed):
        expected = before
        if output == "equivariant":
            expected = tuple(apply(element.matrix, part) for part in before)
        error = relative_error(expected, function(transform(inputs, element.matrix)))
        if worst is None or _nan_last(error) > _nan_last(worst.error):
            worst = Measurement(error, element, str(before[0].dtype).removeprefix("torch."))
    assert worst is not None
    return worst


def assert_equivariant(
    function: Callable[[Any], Any],
    inputs: Any,
    *,
    group: Group = "O_g(3)",
    output: Output = "invariant",
    samples: int = 8,
    seed: int = 0,
    tolerance: float | None = None,
) -> float:
    """Raise AssertionError unless `function` has the symmetry; returns the error measured.

    For a critic, give `lambda batch: critic(batch, action)`. Without a tolerance the dtype
    of the function's output decides: 1e-9 for float64, 1e-4 for float32, relative.
    """
    found = measure(function, inputs, group=group, output=output, samples=samples, seed=seed)
    if tolerance is None:
        if found.dtype not in TOLERANCES:
            raise ValueError(f"no tolerance is known for {found.dtype}; give one")
        tolerance = TOLERANCES[found.dtype]
    # Written so that NaN fails too.
    if not found.error <= tolerance:
        raise AssertionError(
            f"the output is not {output} under {group}: a {found.transformation.name} changes "
            f"it by {found.error:.3g} of its size; {tolerance:.3g} is allowed in {found.dtype}"
        )
    return found.error


def relative_error(expected: Any, found: Any) -> float:
    """max |found - expected| / max |expected|, of arrays or tuples of them; the worst part."""
    errors = [
        float(abs(new - old).max()) / (float(abs(old).max()) or 1.0)
        for old, new in zip(_parts(expected), _parts(found), strict=True)
    ]
    # A NaN anywhere is no agreement, and must not get lost among smaller numbers.
    return max(errors, key=_nan_last)


def _parts(result: Any) -> tuple[Any, ...]:
    parts = result if isinstance(result, tuple) else (result,)
    return tuple(part.detach() if hasattr(part, "detach") else part for part in parts)


def _nan_last(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _like(matrix: Any, array: Any) -> Any:
    """The matrix as an array of the same kind, dtype and device."""
    if hasattr(array, "new_tensor"):
        return matrix.to(array) if hasattr(matrix, "to") else array.new_tensor(matrix)
    return np.asarray(matrix, array.dtype)


def _zeros(shape: tuple[int, ...], like: Any) -> Any:
    if hasattr(like, "new_zeros"):
        return like.new_zeros(shape)
    return np.zeros(shape, like.dtype)
