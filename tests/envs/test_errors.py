"""Bad actions, bad options and simulations that blow up."""

import dataclasses
import pickle

import gymnasium
import numpy as np
import pytest

import sgrl
from sgrl.envs import Health, LocomotionEnv, task_for

NAME = "3d_walker_7_full"


@pytest.fixture
def single():
    env = LocomotionEnv(NAME)
    env.reset(seed=0)
    return env


@pytest.fixture
def vector():
    env = sgrl.make_vec(NAME, 4)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_no_number_names_its_copy_and_changes_nothing(single, vector, value):
    actions = np.zeros((4, 18), np.float32)
    actions[2, 5] = value
    before = vector.state_dict()
    with pytest.raises(ValueError, match="action of environment 2 has NaN or infinite"):
        vector.step(actions)
    for key, array in vector.state_dict().items():
        np.testing.assert_array_equal(array, before[key])
    with pytest.raises(ValueError, match="action of environment 0 has NaN or infinite"):
        single.step(actions[2])


@pytest.mark.parametrize("shape", [(18,), (4, 17), (3, 18), (4, 18, 1)])
def test_actions_of_the_wrong_shape(vector, shape):
    with pytest.raises(ValueError, match=r"4 environments take actions of shape \(4, 18\), not"):
        vector.step(np.zeros(shape))


def test_an_action_of_the_wrong_shape(single):
    with pytest.raises(ValueError, match=r"3d_walker_7_full takes an action of shape \(18,\), not"):
        single.step(np.zeros(17))


def test_actions_are_clipped_and_cost_what_they_are_clipped_to(single):
    twin = LocomotionEnv(NAME)
    twin.reset(seed=0)
    wild, tame = single.step(np.full(18, -7.0)), twin.step(np.full(18, -1.0))
    np.testing.assert_array_equal(wild[0], tame[0])
    assert wild[1] == tame[1]
    assert wild[4]["reward_control"] == pytest.approx(-0.018)


def test_step_before_reset():
    for env in (LocomotionEnv(NAME), sgrl.make_vec(NAME, 2)):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            env.step(np.zeros(env.action_space.shape))


QPOS = np.array([0, 0, 1.6, 1, 0, 0, 0] + [0] * 18, float)
BAD_OPTIONS = [
    ({"yaws": 1.0}, "unknown reset option 'yaws'; known are yaw, target, qpos, qvel"),
    ({"qpos": np.zeros(24)}, r"'qpos' must have shape \(25,\).*, not \(24,\)"),
    ({"qpos": QPOS, "qvel": np.zeros(25)}, r"'qvel' must have shape \(24,\)"),
    ({"qvel": np.zeros(24)}, "'qvel' goes with 'qpos'"),
    ({"qpos": np.zeros(25)}, r"quaternion qpos\[3:7\] must not be zero"),
    ({"qpos": QPOS, "yaw": 1.0}, "'yaw' and 'qpos' both set the orientation"),
    ({"qpos": QPOS * np.nan}, "'qpos' must be finite"),
    ({"qpos": QPOS, "qvel": np.full(24, 1e11)}, "'qvel' must be finite and below"),
    ({"yaw": np.inf}, "'yaw' must be finite"),
    ({"yaw": "north"}, "'yaw' must be numbers"),
    ({"yaw": [1.0, 2.0]}, "'yaw' must have shape"),
    ({"target": (1.0, 2.0, 3.0)}, r"'target' must have shape \(2,\)"),
    ({"target": (0.0, 0.0)}, "put the target away from the torso"),
    ({"qpos": QPOS + np.eye(25)[0], "target": (1.0, 0.0)}, "put the target away from the torso"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options_are_refused_before_anything_changes(single, vector, options, message):
    before, qpos = vector.state_dict(), single.data.qpos.copy()
    for env in (single, vector):
        with pytest.raises(ValueError, match=message):
            env.reset(seed=1, options=options)
    np.testing.assert_array_equal(single.data.qpos, qpos)
    for key, array in vector.state_dict().items():
        np.testing.assert_array_equal(array, before[key])


def test_a_mix_has_no_common_state():
    env = sgrl.make_vec(["3d_hopper_5_full", NAME], 1)
    with pytest.raises(ValueError, match="'qpos' needs environments of one body"):
        env.reset(options={"qpos": QPOS})


def test_options_place_the_agent_exactly(single, vector):
    rng = np.random.default_rng(0)
    qpos, qvel = QPOS + 0.01 * rng.normal(size=25), rng.normal(size=24)
    qpos[3:7] /= np.linalg.norm(qpos[3:7])
    _, info = single.reset(seed=0, options={"qpos": qpos, "qvel": qvel, "target": (3.0, -4.0)})
    np.testing.assert_array_equal(single.data.qpos, qpos)
    np.testing.assert_array_equal(single.data.qvel, qvel)
    np.testing.assert_array_equal(info["target"], (3.0, -4.0))
    vector.reset(seed=0, options={"qpos": np.tile(qpos, (4, 1)), "qvel": qvel})
    for row in range(4):
        np.testing.assert_array_equal(vector.get_data(row).qpos, qpos)
    single.reset(options={"qpos": qpos})
    assert not single.data.qvel.any()


def test_yaw_turns_the_start(single, vector):
    yaws = np.array([0.0, np.pi / 2, -np.pi / 2, 3.0])
    vector.reset(seed=0, options={"yaw": yaws})
    quats = np.array([vector.get_data(row).qpos[3:7] for row in range(4)])
    np.testing.assert_allclose(2 * np.arctan2(quats[:, 3], quats[:, 0]), yaws, atol=0.03)
    single.reset(seed=1, options={"yaw": yaws[1]})
    np.testing.assert_array_equal(single.data.qpos[3:7], quats[1])


def test_options_leave_the_random_stream_as_it_is(single):
    starts = []
    for options in (None, {"yaw": 0.3, "target": (5.0, 5.0)}, {"qpos": QPOS}):
        single.reset(seed=9, options=options)
        starts.append(single.reset()[0])
    np.testing.assert_array_equal(starts[0], starts[1])
    np.testing.assert_array_equal(starts[0], starts[2])


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes MUJOCO_LOG.TXT where it runs


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize("blow", ["qvel", "nan"])
def test_a_simulation_that_diverges_ends_alone(blow):
    env, calm = sgrl.make_vec(NAME, 4), sgrl.make_vec(NAME, 4)
    actions = np.zeros((4, 18))
    for each in (env, calm):
        each.reset(seed=0)
        each.step(actions)
    # There is no official way to break one copy; this is the physics that it steps.
    env._stepper.batches[0].qvel[1] = 1e12 if blow == "qvel" else np.nan
    observations, rewards, terminated, truncated, infos = env.step(actions)
    expected = calm.step(actions)
    np.testing.assert_array_equal(terminated, [False, True, False, False])
    np.testing.assert_array_equal(infos["diverged"], [False, True, False, False])
    assert not truncated.any()
    assert rewards[1] == 0
    assert np.isfinite(infos["final_obs"]).all()
    assert np.isfinite(observations).all()
    others = [0, 2, 3]
    np.testing.assert_array_equal(observations[others], expected[0][others])
    np.testing.assert_array_equal(rewards[others], expected[1][others])
    # The next episode of that environment is an ordinary one.
    after, rewards, terminated, _, infos = env.step(actions)
    assert not infos["diverged"].any()
    assert not terminated.any()
    assert np.isfinite(after).all()
    assert np.isfinite(rewards).all()


@pytest.mark.usefixtures("in_tmp_path")
def test_a_single_simulation_that_diverges_ends(single):
    single.step(np.zeros(18))
    single.data.qvel[:] = 1e12
    observation, reward, terminated, truncated, info = single.step(np.zeros(18))
    assert (terminated, truncated, reward) == (True, False, 0.0)
    assert info["diverged"]
    assert np.isfinite(observation).all()
    single.reset()
    assert not single.step(np.zeros(18))[2]


@pytest.mark.usefixtures("in_tmp_path")
def test_a_pickled_simulation_that_diverged_stays_so(single):
    single.data.qvel[:] = 1e12
    single.step(np.zeros(18))
    twin = pickle.loads(pickle.dumps(single))
    for env in (single, twin):
        _, reward, terminated, _, info = env.step(np.zeros(18))
        assert (terminated, reward) == (True, 0.0)
        assert info["diverged"]
    twin.reset(seed=0)
    assert not twin.step(np.zeros(18))[4]["diverged"]


@pytest.mark.parametrize("yaw", [1e9, -123_456_789.123])
def test_a_large_yaw_is_pickled_to_the_bit(yaw):
    single, vector = sgrl.make_env(NAME, yaw=yaw), sgrl.make_vec(NAME, 2)
    vector.reset(seed=0, options={"yaw": yaw})
    single.reset(seed=0)
    for env in (single, vector):
        twin = pickle.loads(pickle.dumps(env))
        action = np.full(env.action_space.shape, 0.3)
        for _ in range(5):
            np.testing.assert_array_equal(env.step(action)[0], twin.step(action)[0])


@pytest.mark.usefixtures("in_tmp_path")
def test_a_simulation_that_diverges_ends_though_nothing_counts_as_a_fall():
    task = dataclasses.replace(task_for(sgrl.get_body(NAME)), health=Health(min_height=-np.inf))
    env = sgrl.make_vec(NAME, 2, task=task)
    env.reset(seed=0)
    env._stepper.batches[0].qvel[1] = np.nan
    _, _, terminated, _, infos = env.step(np.zeros((2, 18)))
    np.testing.assert_array_equal(infos["diverged"], [False, True])
    np.testing.assert_array_equal(terminated, [False, True])


def test_a_body_without_a_torso_by_that_name_says_so():
    walker = sgrl.get_body(NAME)
    trunk = dataclasses.replace(walker.limbs[0], name="trunk")
    others = [
        dataclasses.replace(limb, parent="trunk" if limb.parent == "torso" else limb.parent)
        for limb in walker.limbs[1:]
    ]
    body = dataclasses.replace(walker, name="odd", limbs=(trunk, *others))
    with pytest.raises(ValueError, match="no limb 'torso'"):
        sgrl.make_env(body)


def test_torque_limits_hold_no_matter_how_wild_the_start():
    """A start far outside every range ends without a NaN."""
    env = sgrl.make_vec("3d_cheetah_14_full", 8)
    rng = np.random.default_rng(0)
    qpos = np.tile(np.r_[0, 0, 0.7, 1, np.zeros(42)], (8, 1))
    qpos[:, 7:] = rng.normal(0, 3, (8, 39))
    env.reset(seed=0, options={"qpos": qpos, "qvel": rng.normal(0, 50, (8, 45))})
    for _ in range(10):
        observations, rewards, *_ = env.step(rng.uniform(-1, 1, (8, 39)))
        assert np.isfinite(observations).all()
        assert np.isfinite(rewards).all()
