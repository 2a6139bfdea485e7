"""All 29 bodies compile to the published physical facts, number by number."""

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from sgrl.morphology import body_names, compile_model, get_body

FACTS = json.loads((Path(__file__).parent / "facts.json").read_text())
CONTACT = ("friction", "condim", "contype", "conaffinity", "margin", "solref", "solimp")


def close(actual, expected, atol=1e-6):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def facts_of(name):
    """The whole of a body's limbs: its family's, with what differs in this body."""
    facts = FACTS["bodies"][name]
    limbs = FACTS["full"][get_body(name).family]["limbs"]
    return {limb: limbs[limb] | facts["differs"].get(limb, {}) for limb in facts["limbs"]}


def test_the_table_has_the_published_names():
    assert set(body_names()) == set(FACTS["bodies"])
    assert len(body_names()) == 29


@pytest.mark.parametrize("name", body_names())
def test_sizes_and_mass(name):
    model, facts = compile_model(get_body(name)), FACTS["bodies"][name]
    assert (model.nbody - 1, model.nq, model.nv, model.nu) == (
        facts["n_limbs"],
        facts["nq"],
        facts["nv"],
        facts["nu"],
    )
    close(model.body_mass.sum(), facts["total_mass"], atol=1e-4)


@pytest.mark.parametrize("name", body_names())
def test_physics_and_floor(name):
    model, facts = compile_model(get_body(name)), FACTS["full"][get_body(name).family]
    close(model.opt.timestep, facts["timestep"])
    integrator = mujoco.mjtIntegrator(model.opt.integrator).name
    assert integrator == f"mjINT_{facts['integrator'].upper()}"
    for field in (*CONTACT, "size"):
        close(getattr(model.geom("floor"), field), facts["floor"][field])
    close(model.jnt_solref[1:], np.tile(facts["jnt_limit"]["solref"], (model.njnt - 1, 1)))
    close(model.jnt_solimp[1:], np.tile(facts["jnt_limit"]["solimp"], (model.njnt - 1, 1)))
    close(model.actuator_ctrlrange, np.tile(facts["ctrlrange"], (model.nu, 1)))


@pytest.mark.parametrize("name", body_names())
def test_limbs(name):
    model = compile_model(get_body(name))
    for index, (limb, facts) in enumerate(facts_of(name).items(), start=1):
        assert model.body(index).name == limb
        assert model.body(model.body_parentid[index]).name == facts["parent"]
        close(model.body_pos[index], facts["pos"])
        close(model.body_mass[index], facts["mass"], atol=1e-4)


@pytest.mark.parametrize("name", body_names())
def test_geoms(name):
    model = compile_model(get_body(name))
    for index, facts in enumerate(facts_of(name).values(), start=1):
        first, count = model.body_geomadr[index], model.body_geomnum[index]
        assert count == len(facts["geoms"])
        for geom, expected in zip(range(first, first + count), facts["geoms"], strict=True):
            kind = mujoco.mjtGeom(model.geom_type[geom]).name
            assert kind == f"mjGEOM_{expected['type'].upper()}"
            for field in (*CONTACT, "size", "pos", "quat"):
                close(getattr(model, f"geom_{field}")[geom], expected[field])


@pytest.mark.parametrize("name", body_names())
def test_hinges_and_motors(name):
    model = compile_model(get_body(name))
    joints = [joint for facts in facts_of(name).values() for joint in facts["joints"]]
    assert model.njnt == 1 + len(joints)
    for motor, facts in enumerate(joints):
        joint = motor + 1
        dof = model.jnt_dofadr[joint]
        assert model.joint(joint).name == facts["name"]
        assert model.actuator_trnid[motor, 0] == joint
        close(model.jnt_axis[joint], facts["axis"])
        close(model.jnt_pos[joint], facts["pos"])
        close(np.rad2deg(model.jnt_range[joint]), facts["range_deg"], atol=1e-5)
        assert model.jnt_limited[joint]
        close(np.ravel(model.jnt_stiffness[joint])[0], facts["stiffness"])
        close(np.ravel(model.dof_damping[dof])[0], facts["damping"])
        close(model.dof_armature[dof], facts["armature"])
        close(model.actuator_gear[motor, 0], facts["gear"][0])
