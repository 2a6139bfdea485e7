"""The full 3D cheetah: a torso, four legs of three limbs each, and a tail, 59.4 kg."""

from sgrl.morphology.body import Geom, Limb, Morphology, Physics, Surface
from sgrl.morphology.family import Family
from sgrl.morphology.parts import LEFT, RIGHT, Range, about_y, capsule, hinges
from sgrl.morphology.task import Health, Task

_FIXED: Range = (-1, 1)
"""Range of the hinges without a working motor."""
_CONTACT_SOLIMP = (0.0, 0.8, 0.01, 0.5, 2.0)


def _across(x: float, z: float, half_width: float, radius: float) -> Geom:
    """A part of the trunk: a capsule lying from right to left."""
    return capsule((x, -half_width, z), (x, half_width, z), radius)


def _back_leg(side: str) -> tuple[Limb, Limb, Limb]:
    axes = LEFT if side == "left" else RIGHT
    return (
        Limb(
            f"{side}_bthigh",
            "torso",
            (-0.445, 0.12 if side == "left" else -0.12, 0.0),
            (Geom(0.06, 0.145, (0.1, 0.0, -0.13), about_y(-3.8)),),
            hinges(
                (-10, 0),
                (-60, 30),
                (-15, 5),
                (120, 120, 120),
                stiffness=240.0,
                damping=6.0,
                armature=0.1,
                axes=axes,
            ),
        ),
        Limb(
            f"{side}_bshin",
            f"{side}_bthigh",
            (0.16, 0.0, -0.25),
            (Geom(0.046, 0.15, (-0.14, 0.0, -0.07), about_y(-2.03)),),
            hinges(
                _FIXED,
                (-45, 45),
                _FIXED,
                (0, 90, 0),
                stiffness=180.0,
                damping=4.5,
                armature=0.1,
                axes=axes,
            ),
        ),
        Limb(
            f"{side}_bfoot",
            f"{side}_bshin",
            (-0.28, 0.0, -0.14),
            (Geom(0.046, 0.094, (0.03, 0.0, -0.097), about_y(-0.27)),),
            hinges(
                _FIXED,
                (-45, 25),
                (-15, 5),
                (0, 60, 60),
                stiffness=120.0,
                damping=3.0,
                armature=0.1,
                axes=axes,
            ),
        ),
    )


def _front_leg(side: str) -> tuple[Limb, Limb, Limb]:
    axes = LEFT if side == "left" else RIGHT
    return (
        Limb(
            f"{side}_fthigh",
            "torso",
            (0.4, 0.09 if side == "left" else -0.09, 0.0),
            (Geom(0.055, 0.133, (-0.07, 0.0, -0.12), about_y(0.52)),),
            hinges(
                (-15, 5),
                (-40, 60),
                (-20, 10),
                (120, 120, 120),
                stiffness=180.0,
                damping=4.5,
                armature=0.1,
                axes=axes,
            ),
        ),
        Limb(
            f"{side}_fshin",
            f"{side}_fthigh",
            (-0.14, 0.0, -0.24),
            (Geom(0.046, 0.106, (0.065, 0.0, -0.09), about_y(-0.6)),),
            hinges(
                _FIXED,
                (-50, 70),
                _FIXED,
                (0, 60, 0),
                stiffness=120.0,
                damping=3.0,
                armature=0.1,
                axes=axes,
            ),
        ),
        Limb(
            f"{side}_ffoot",
            f"{side}_fshin",
            (0.13, 0.0, -0.18),
            (Geom(0.046, 0.07, (0.045, 0.0, -0.07), about_y(-0.6)),),
            hinges(
                _FIXED,
                (-30, 30),
                (-20, 5),
                (0, 30, 30),
                stiffness=60.0,
                damping=1.5,
                armature=0.1,
                axes=axes,
            ),
        ),
    )


_BODY = Morphology(
    name="3d_cheetah_14_full",
    family="cheetah",
    limbs=(
        Limb(
            "torso",
            None,
            (0.0, 0.0, 0.7),
            (
                _across(0.4, 0.0, 0.08, 0.07),
                _across(0.28, -0.01, 0.07, 0.06),
                _across(0.14, -0.01, 0.07, 0.06),
                _across(0.0, -0.01, 0.06, 0.06),
                _across(-0.14, -0.01, 0.06, 0.06),
                _across(-0.28, -0.01, 0.06, 0.06),
                _across(-0.445, -0.02, 0.09, 0.09),
                Geom(radius=0.09, pos=(0.5, 0.0, 0.1)),
            ),
        ),
        Limb(
            "upper_tail",
            "torso",
            (-0.445, 0.0, 0.0),
            (
                capsule((-0.5, 0.0, 0.0), (0.0, 0.0, 0.0), 0.04),
                Geom(0.04, 0.07, (-0.55, 0.0, 0.05), about_y(-0.7853981633974483)),
            ),
            hinges((-20, 20), (-80, 80), _FIXED, (70, 70, 0), damping=3.5, armature=0.1),
        ),
        *_back_leg("right"),
        *_front_leg("right"),
        *_back_leg("left"),
        *_front_leg("left"),
    ),
    physics=Physics(
        timestep=0.01,
        integrator="Euler",
        skin=Surface((0.4, 0.1, 0.1), 3, 1, 0, margin=0.0, solimp=_CONTACT_SOLIMP),
        floor=Surface((0.4, 0.1, 0.1), 3, 1, 1, margin=0.0, solimp=_CONTACT_SOLIMP),
        floor_size=(200.0, 200.0, 0.125),
        limit_solimp=(0.0, 0.8, 0.03, 0.5, 2.0),
    ),
)


def _task(body: Morphology) -> Task:
    front = tuple(name for name in body.limb_names if name.endswith("_fthigh"))
    return Task(
        alive_bonus=0.0,
        rewards_forward=True,
        health=Health(
            min_height=0.26,
            height_limbs=("torso", *front),
            max_pitch=1.35,
            max_roll=1.35,
            min_motion=1.0,
        ),
        position_noise=0.1,
        velocity_noise=0.1,
        normal_velocity_noise=True,
    )


CHEETAH = Family(
    name="cheetah",
    body=_BODY,
    task=_task,
    color=(0.85, 0.65, 0.25, 1.0),
    horizon=2.0,
    return_steps=3,
    score=15_000.0,
)
