"""The full 3D walker: a torso on two legs of three limbs each, 33.5 kg."""

from sgrl.morphology.body import Limb, Morphology, Physics, Surface
from sgrl.morphology.parts import LEFT, RIGHT, Range, capsule, hinges

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


WALKER = Morphology(
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
