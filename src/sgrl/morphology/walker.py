"""The full 3D walker: a torso on two legs of three limbs each, 33.5 kg."""

from sgrl.morphology.body import MIRRORED, Limb, Morphology, Physics, Surface
from sgrl.morphology.family import Family
from sgrl.morphology.parts import LEFT, RIGHT, Range, capsule, hinges
from sgrl.morphology.task import Health, Task

_FIXED: Range = (-1, 1)
"""Range of the hinges without a working motor."""
_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)


def _leg(side: str) -> tuple[Limb, Limb, Limb]:
    axes = LEFT if side == "left" else RIGHT
    joint = {"damping": 0.1, "armature": 0.01}
    return (
        Limb(
            f"{side}_thigh",
            "torso",
            (0.0, 0.0, -0.6),
            (capsule((0.0, 0.0, 0.0), (0.0, 0.0, -0.48), 0.056),),
            hinges((-25, 5), (-20, 110), (-60, 35), (100, 100, 100), axes=axes, **joint),
        ),
        Limb(
            f"{side}_shin",
            f"{side}_thigh",
            (0.0, 0.0, -0.48),
            (capsule((0.0, 0.0, 0.0), (0.0, 0.0, -0.384), 0.0448),),
            hinges(_FIXED, (-160, -2), _FIXED, (0, 100, 0), axes=axes, **joint),
        ),
        Limb(
            f"{side}_foot",
            f"{side}_shin",
            (0.0, 0.0, -0.384),
            (capsule((0.0, 0.0, 0.0), (0.2, 0.0, 0.0), 0.06),),
            hinges(_FIXED, (-45, 45), (-30, 5), (0, 100, 100), axes=axes, **joint),
        ),
    )


_BODY = Morphology(
    name="3d_walker_7_full",
    family="walker",
    limbs=(
        Limb(
            "torso",
            None,
            (0.0, 0.0, 1.6),
            (capsule((0.0, 0.0, 0.0), (0.0, 0.0, -0.6), 0.07),),
        ),
        *_leg("right"),
        *_leg("left"),
    ),
    physics=Physics(
        timestep=0.002,
        integrator="RK4",
        skin=Surface((0.9, 0.1, 0.1), 3, 1, 0, margin=0.0, solimp=_SOLIMP),
        floor=Surface((0.7, 0.1, 0.1), 3, 1, 1, margin=0.0, solimp=_SOLIMP),
        floor_size=(40.0, 40.0, 40.0),
    ),
)


def _task(body: Morphology) -> Task:
    # Heights by knees left. The published bounds follow this rule with one exception.
    shins = sum(limb.type == "shin" for limb in body.limbs)
    low, high = {0: (0.54, 1.74), 1: (0.664, 2.0)}.get(shins, (0.8, 2.0))
    if body.name.removesuffix(MIRRORED) == "3d_walker_4_right_knee_left_foot":
        high = 1.864
    return Task(
        alive_bonus=1.0,
        rewards_forward=True,
        health=Health(min_height=low, max_height=high, max_pitch=1.0, max_roll=1.0),
        position_noise=0.005,
        velocity_noise=0.005,
    )


WALKER = Family(
    name="walker",
    body=_BODY,
    task=_task,
    color=(0.25, 0.60, 0.35, 1.0),
    horizon=4.0,
    return_steps=5,
    score=4_500.0,
)
