"""The MuJoCo model of a body, through `mujoco.MjSpec`."""

from __future__ import annotations

from functools import lru_cache

import mujoco

from sgrl.morphology.body import Geom, Limb, Morphology, Surface
from sgrl.morphology.families import color_of


def to_spec(body: Morphology) -> mujoco.MjSpec:
    """An editable MuJoCo specification of the body on its floor, for those who want more."""
    spec = mujoco.MjSpec()
    spec.modelname = body.name
    spec.compiler.degree = True
    spec.option.timestep = body.physics.timestep
    spec.option.integrator = getattr(
        mujoco.mjtIntegrator, f"mjINT_{body.physics.integrator.upper()}"
    )
    _add_floor(spec, body)

    color = color_of(body)
    nodes: dict[str, mujoco.MjsBody] = {}
    for limb in body.limbs:
        parent = spec.worldbody if limb.parent is None else nodes[limb.parent]
        node = nodes[limb.name] = parent.add_body(name=limb.name, pos=limb.pos)
        if limb.parent is None:
            node.add_freejoint(name="root")
            node.add_camera(
                name="track",
                mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM,
                pos=(0.0, -4.0, 1.0),
                xyaxes=(1.0, 0.0, 0.0, 0.0, 0.25, 1.0),
            )
            # It goes with the torso, so that the shadow does wherever the body runs.
            node.add_light(
                type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
                mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM,
                pos=(-0.5, -1.0, 2.5),
                dir=(0.2, 0.4, -1.0),
                diffuse=(0.6, 0.6, 0.6),
                castshadow=True,
            )
        else:
            _add_hinges(spec, node, limb, body)
        for geom in limb.geoms:
            _add_geom(node, geom, body.physics.skin, color)
    return spec


@lru_cache(maxsize=256)
def compile_model(body: Morphology) -> mujoco.MjModel:
    """The compiled model. Equal bodies share one: copy it before changing anything in it."""
    return to_spec(body).compile()


def _add_floor(spec: mujoco.MjSpec, body: Morphology) -> None:
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=(0.65, 0.78, 0.92),
        rgb2=(0.95, 0.97, 1.0),
        width=128,
        height=768,
    )
    spec.add_texture(
        name="ground",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        mark=mujoco.mjtMark.mjMARK_EDGE,
        rgb1=(0.32, 0.36, 0.40),
        rgb2=(0.40, 0.44, 0.48),
        markrgb=(0.70, 0.73, 0.76),
        width=300,
        height=300,
    )
    # texuniform: squares of one metre, whatever the size of the floor.
    material = spec.add_material(name="ground", texuniform=True, texrepeat=(1.0, 1.0))
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "ground"
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=body.physics.floor_size,
        material="ground",
        **_contact(body.physics.floor),
    )


def _add_geom(node: mujoco.MjsBody, geom: Geom, skin: Surface, rgba: tuple[float, ...]) -> None:
    contact = _contact(skin)
    if geom.friction is not None:
        contact["friction"] = geom.friction
    kind = mujoco.mjtGeom.mjGEOM_CAPSULE if geom.half_length else mujoco.mjtGeom.mjGEOM_SPHERE
    node.add_geom(
        type=kind,
        size=(geom.radius, geom.half_length, 0.0),
        pos=geom.pos,
        quat=geom.quat,
        rgba=rgba,
        **contact,
    )


def _add_hinges(spec: mujoco.MjSpec, node: mujoco.MjsBody, limb: Limb, body: Morphology) -> None:
    for axis, hinge in zip(limb.hinge_names, limb.hinges, strict=True):
        joint = f"{limb.name}_joint_{axis}"
        node.add_joint(
            name=joint,
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=hinge.axis,
            pos=limb.anchor,
            range=hinge.range_deg,
            limited=mujoco.mjtLimited.mjLIMITED_TRUE,
            stiffness=hinge.stiffness,
            damping=hinge.damping,
            armature=hinge.armature,
            solimp_limit=body.physics.limit_solimp,
        )
        motor = spec.add_actuator(
            name=joint,
            target=joint,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            ctrlrange=(-1.0, 1.0),
            ctrllimited=mujoco.mjtLimited.mjLIMITED_TRUE,
        )
        motor.gear[0] = hinge.gear


def _contact(surface: Surface) -> dict[str, object]:
    return {
        "friction": surface.friction,
        "condim": surface.condim,
        "contype": surface.contype,
        "conaffinity": surface.conaffinity,
        "margin": surface.margin,
        "solref": surface.solref,
        "solimp": surface.solimp,
    }
