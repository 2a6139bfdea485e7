"""The full 3D hopper: a torso on one leg of four links, 18.6 kg."""

from sgrl.morphology.body import Geom, Limb, Morphology, Physics, Surface
from sgrl.morphology.family import Family
from sgrl.morphology.parts import Range, capsule, hinges
from sgrl.morphology.task import Health, Task

_SOLIMP = (0.8, 0.8, 0.01, 0.5, 2.0)
_SWAY: Range = (-10, 10)
"""Range of the hinges that the planar hopper does not have."""


def _link(name: str, parent: str, z: float) -> Limb:
    """One of the two equal shin links; its frame is at its middle."""
    return Limb(
        name,
        parent,
        (0.0, 0.0, z),
        (Geom(radius=0.04, half_length=0.25),),
        hinges(_SWAY, (-150, 0), _SWAY, (200, 200, 200), damping=1.0, armature=1.0),
        anchor=(0.0, 0.0, 0.25),
    )


_BODY = Morphology(
    name="3d_hopper_5_full",
    family="hopper",
    limbs=(
        Limb("torso", None, (0.0, 0.0, 1.75), (Geom(radius=0.05, half_length=0.2),)),
        Limb(
            "thigh",
            "torso",
            (0.0, 0.0, -0.2),
            (Geom(radius=0.05, half_length=0.225, pos=(0.0, 0.0, -0.225)),),
            hinges(_SWAY, (-150, 0), _SWAY, (200, 200, 200), damping=1.0, armature=1.0),
        ),
        _link("shin", "thigh", -0.7),
        _link("lower_shin", "shin", -0.5),
        Limb(
            "foot",
            "lower_shin",
            (0.065, 0.0, -0.25),
            (capsule((-0.195, 0.0, 0.0), (0.195, 0.0, 0.0), 0.06, (2.0, 0.005, 0.0001)),),
            hinges(_SWAY, (-45, 45), _SWAY, (200, 200, 200), damping=1.0, armature=1.0),
            anchor=(-0.065, 0.0, 0.0),
        ),
    ),
    physics=Physics(
        timestep=0.002,
        integrator="RK4",
        # Alone of the four families, its limbs also collide with each other.
        skin=Surface((0.9, 0.005, 0.0001), 1, 1, 1, margin=0.001, solimp=_SOLIMP),
        floor=Surface((1.0, 0.005, 0.0001), 3, 1, 1, margin=0.001, solimp=_SOLIMP),
        floor_size=(20.0, 20.0, 0.125),
    ),
)


def _task(body: Morphology) -> Task:
    # By links left in the leg; a leg of any other length falls when it is half down.
    height = {3: 0.45, 4: 0.60, 5: 0.95}.get(body.num_limbs, 0.5 * body.torso_height)
    return Task(
        alive_bonus=1.0,
        rewards_forward=False,
        health=Health(min_height=height, max_tilt=1.0, max_size=100.0),
        position_noise=0.005,
        velocity_noise=0.005,
    )


HOPPER = Family(
    name="hopper",
    body=_BODY,
    task=_task,
    color=(0.90, 0.55, 0.15, 1.0),
    horizon=2.0,
    return_steps=3,
    score=2_500.0,
)
