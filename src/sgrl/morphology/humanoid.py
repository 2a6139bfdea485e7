"""The full 3D humanoid: a torso, two legs and two arms of two limbs each, 42.1 kg."""

from sgrl.morphology.body import Geom, Limb, Morphology, Physics, Surface, Vec3
from sgrl.morphology.family import Family
from sgrl.morphology.parts import LEFT, RIGHT, Range, capsule, hinges, unit
from sgrl.morphology.task import Health, Task

_FIXED: Range = (-1, 1)
"""Range of the hinges without a working motor."""
_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)


def _across(x: float, z: float, half_width: float, radius: float) -> Geom:
    """A part of the trunk: a capsule lying from right to left."""
    return capsule((x, -half_width, z), (x, half_width, z), radius)


def _leg(side: str) -> tuple[Limb, Limb]:
    left = side == "left"
    y = 1.0 if left else -1.0
    axes = LEFT if left else RIGHT
    return (
        Limb(
            f"{side}_thigh",
            "torso",
            (0.0, 0.1 * y, -0.299625),
            (capsule((0.0, 0.0, 0.0), (0.0, -0.01 * y, -0.34), 0.06),),
            hinges(
                (-25, 5),
                (-20, 110),
                (-60, 35),
                (100, 300, 100),
                stiffness=(10, 20, 10),
                damping=5.0,
                # The two sides differ here in the published body.
                armature=(0.01, 0.01 if left else 0.008, 0.01),
                axes=axes,
            ),
        ),
        Limb(
            f"{side}_shin",
            f"{side}_thigh",
            (0.0, -0.01 * y, -0.403),
            (
                capsule((0.0, 0.0, 0.0), (0.0, 0.0, -0.3), 0.049),
                Geom(radius=0.075, pos=(0.0, 0.0, -0.35)),
            ),
            hinges(
                _FIXED,
                (-160, -2),
                _FIXED,
                (0, 200, 0),
                stiffness=1.0,
                damping=1.0,
                armature=0.006,
                axes=axes,
            ),
            anchor=(0.0, 0.0, 0.02),
        ),
    )


def _arm(side: str) -> tuple[Limb, Limb]:
    left = side == "left"
    y = 1.0 if left else -1.0
    swing: Range = (-60, 85) if left else (-85, 60)
    up: Vec3 = (0.0, 0.0, -y)
    return (
        Limb(
            f"{side}_upper_arm",
            "torso",
            (0.0, 0.17 * y, 0.225375),
            (capsule((0.0, 0.0, 0.0), (0.16, 0.16 * y, -0.16), 0.04),),
            hinges(
                swing,
                swing,
                _FIXED,
                (25, 25, 0),
                stiffness=1.0,
                damping=1.0,
                # The two sides differ here in the published body.
                armature=(0.0068, 0.0051, 0.0028 if left else 0.0051),
                axes=(unit(2, -y, 1), unit(0, y, 1), up),
            ),
        ),
        Limb(
            f"{side}_lower_arm",
            f"{side}_upper_arm",
            (0.18, 0.18 * y, -0.18),
            (
                capsule((0.01, -0.01 * y, 0.01), (0.17, -0.17 * y, 0.17), 0.031),
                Geom(radius=0.04, pos=(0.18, -0.18 * y, 0.18)),
            ),
            hinges(
                _FIXED,
                (-90, 50),
                _FIXED,
                (0, 25, 0),
                damping=1.0,
                armature=0.0028,
                axes=((-y, 0.0, 0.0), unit(0, -1, -y), up),
            ),
        ),
    )


_BODY = Morphology(
    name="3d_humanoid_9_full",
    family="humanoid",
    limbs=(
        Limb(
            "torso",
            None,
            (0.0, 0.0, 1.234625),
            (
                _across(0.0, 0.165375, 0.07, 0.07),
                Geom(radius=0.09, pos=(0.0, 0.0, 0.355375)),
                _across(-0.01, 0.045375, 0.06, 0.06),
                _across(-0.01, -0.094625, 0.06, 0.06),
                _across(-0.02, -0.259625, 0.07, 0.09),
            ),
        ),
        *_leg("right"),
        *_leg("left"),
        *_arm("right"),
        *_arm("left"),
    ),
    physics=Physics(
        timestep=0.002,
        integrator="RK4",
        skin=Surface((0.7, 0.1, 0.1), 3, 1, 0, margin=0.0, solimp=_SOLIMP),
        floor=Surface((0.7, 0.1, 0.1), 3, 1, 1, margin=0.0, solimp=_SOLIMP),
        floor_size=(200.0, 200.0, 0.125),
    ),
)


def _task(body: Morphology) -> Task:
    return Task(
        alive_bonus=1.0,
        rewards_forward=True,
        health=Health(min_height=0.834625, max_height=1.834625, max_pitch=1.0, max_roll=1.0),
        position_noise=0.005,
        velocity_noise=0.005,
    )


HUMANOID = Family(
    name="humanoid",
    body=_BODY,
    task=_task,
    color=(0.30, 0.50, 0.80, 1.0),
    horizon=0.8,
    return_steps=1,
    score=10_000.0,
)
