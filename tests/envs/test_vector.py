"""The vector environment: equal to the single one, row by row, for one body or a mix."""

import copy
import pickle
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import sgrl
from sgrl.envs import Health, LocomotionEnv, LocomotionVectorEnv, task_for
from sgrl.envs.observation import FEATURES
from sgrl.morphology import body_names, get_body, get_collection, mirror_of

HOPPER_TASK = task_for(get_body("3d_hopper_5_full"))
NO_LIMB = Health(0.5, height_limbs=("torso", "wing"))
FULL = ("3d_hopper_5_full", "3d_walker_7_full", "3d_humanoid_9_full", "3d_cheetah_14_full")


def random_actions(env, count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.2, 1.2, (count, *env.action_space.shape)).astype(np.float32)


def trace(env, actions, seed=0):
    out = [env.reset(seed=seed)[0]]
    for action in actions:
        observation, reward, terminated, truncated, infos = env.step(action)
        out += [observation, reward, terminated, truncated]
        if "final_obs" in infos:
            out.append(infos["final_obs"])
    return out


def assert_same(first, second):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", body_names())
def test_a_row_is_the_single_environment_to_the_bit(name):
    """Copy i with seed s is the single environment with seed s + i, through many episodes."""
    single = LocomotionEnv(name, variant="v2")
    one, three = sgrl.make_vec(name, variant="v2"), sgrl.make_vec(name, 3, variant="v2")
    observation, _ = single.reset(seed=8)
    assert_same([observation, observation], [one.reset(seed=8)[0][0], three.reset(seed=7)[0][1]])
    ends = 0
    for action in random_actions(three, 500):
        observation, reward, terminated, _, info = single.step(action[1])
        mine = one.step(action[1:2])
        theirs = three.step(action)
        for row, (seen, rewards, ended, _, infos) in ((0, mine), (1, theirs)):
            assert rewards[row] == reward
            assert ended[row] == terminated
            last = infos["final_obs"][row] if terminated else seen[row]
            np.testing.assert_array_equal(last, observation)
            facts = infos["final_info"] if terminated else infos
            for key, value in info.items():
                np.testing.assert_array_equal(facts[key][row], value)
        if terminated:
            ends += 1
            first, _ = single.reset()
            np.testing.assert_array_equal(mine[0][0], first)
            np.testing.assert_array_equal(theirs[0][1], first)
        if ends == 2:
            break
    assert ends == 2


@pytest.mark.parametrize("name", FULL)
def test_threads_do_not_change_a_trajectory(name):
    actions = random_actions(sgrl.make_vec(name, 7), 40)
    first = trace(sgrl.make_vec(name, 7, threads=1), actions)
    for threads in (2, 5):
        assert_same(first, trace(sgrl.make_vec(name, 7, threads=threads), actions))


def test_environments_are_independent():
    """What the others do does not matter to a copy."""
    env = sgrl.make_vec("3d_hopper_5_full", 4)
    actions = random_actions(env, 60)
    other = actions.copy()
    other[:, [0, 1, 3]] = 0.3
    first, second = trace(env, actions), trace(env, other)
    env.reset(seed=0)
    rows = [np.asarray(x)[2] for x in first if np.ndim(x) == 2 and len(x) == 4]
    assert len(rows) > 60
    alone = sgrl.make_vec("3d_hopper_5_full", 1)
    expected = trace(alone, actions[:, 2:3], seed=2)
    # Compare observations step by step; final observations appear at different calls.
    steps = [x for x in second[1:] if np.ndim(x) == 2 and x.dtype == np.float32]
    assert steps
    assert_same([x[2] for x in second[1::4][:20]], [x[0] for x in expected[1::4][:20]])
    assert_same([x[2] for x in first[1::4][:20]], [x[0] for x in expected[1::4][:20]])


def test_gymnasium_makes_it():
    env = gymnasium.make_vec("sgrl/3d_walker_7_full-v2", num_envs=5)
    assert isinstance(env.unwrapped, LocomotionVectorEnv)
    assert env.num_envs == 5
    assert env.unwrapped.max_episode_steps == 1000
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observations, infos = env.reset(seed=1)
    assert env.observation_space.contains(observations)
    assert (infos["distance"] <= 20).all()
    assert env.single_action_space.shape == (18,)


def test_it_agrees_with_gymnasiums_own_vector_environment():
    """In shape, autoreset and what it tells, as SyncVectorEnv over the single environment."""
    id = "sgrl/3d_cheetah_14_full-v1"
    ours = gymnasium.make_vec(id, num_envs=3)
    peer = gymnasium.make_vec(
        id,
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    assert ours.observation_space == peer.observation_space
    assert ours.action_space == peer.action_space
    assert_same([ours.reset(seed=4)[0]], [peer.reset(seed=4)[0]])
    ends = 0
    for action in random_actions(ours, 60).clip(-1, 1):
        mine, theirs = ours.step(action), peer.step(action)
        assert_same(mine[:4], theirs[:4])
        assert ("final_obs" in mine[4]) == ("final_obs" in theirs[4])
        for key in ("distance", "target", "targets_reached"):
            np.testing.assert_array_equal(mine[4][key], theirs[4][key])
            np.testing.assert_array_equal(mine[4][f"_{key}"], theirs[4][f"_{key}"])
        if "final_obs" in mine[4]:
            done = mine[4]["_final_obs"]
            ends += done.sum()
            np.testing.assert_array_equal(done, theirs[4]["_final_obs"])
            for row in np.flatnonzero(done):
                np.testing.assert_array_equal(
                    mine[4]["final_obs"][row], theirs[4]["final_obs"][row]
                )
                assert (
                    mine[4]["final_info"]["reward_progress"][row]
                    == theirs[4]["final_info"]["reward_progress"][row]
                )
    assert ends > 2


def test_a_time_out_truncates_and_does_not_terminate():
    env = sgrl.make_vec("3d_hopper_5_full", 2, max_episode_steps=4)
    env.reset(seed=0)
    for step in range(1, 9):
        observations, _, terminated, truncated, infos = env.step(np.zeros(env.action_space.shape))
        assert not terminated.any()
        assert truncated.all() == (step % 4 == 0)
        if truncated.any():
            assert infos["_final_obs"].all()
            assert not np.array_equal(infos["final_obs"], observations)
    unlimited = sgrl.make_vec("3d_hopper_5_full", 1, max_episode_steps=None)
    unlimited.reset(seed=0)
    assert not any(unlimited.step(np.zeros((1, 12)))[3].any() for _ in range(1100))


@pytest.fixture(scope="module")
def mix():
    return sgrl.make_vec("3d_cwhh++", 2, variant="v2")


def test_a_mix_holds_the_training_bodies_in_order(mix):
    train = get_collection("3d_cwhh++").train
    assert [part.body.name for part in mix.parts] == list(train)
    assert mix.num_envs == 2 * 23
    np.testing.assert_array_equal(mix.body_index, np.repeat(np.arange(23), 2))
    limbs = [get_body(name).num_limbs for name in train]
    np.testing.assert_array_equal(mix.limb_mask.sum(axis=1), np.repeat(limbs, 2))
    np.testing.assert_array_equal(mix.action_mask.sum(axis=1), 3 * (np.repeat(limbs, 2) - 1))
    assert mix.single_observation_space.shape == (14 * FEATURES,)


def test_a_mix_is_each_body_alone(mix):
    """Padding changes nothing: every body's rows are those of its own vector environment."""
    seen, _ = mix.reset(seed=0)
    alone = [sgrl.make_vec(part.body, part.num_envs, variant="v2") for part in mix.parts]
    own = [env.reset(seed=part.start)[0] for env, part in zip(alone, mix.parts, strict=True)]
    assert_same(mix.split(seen), own)
    for step in range(30):
        actions = [random_actions(env, 1, seed=step)[0] for env in alone]
        seen, rewards, terminated, _, infos = mix.step(mix.join_actions(actions))
        results = [env.step(action) for env, action in zip(alone, actions, strict=True)]
        assert_same(mix.split(seen), [result[0] for result in results])
        np.testing.assert_allclose(
            rewards, np.concatenate([result[1] for result in results]), rtol=0, atol=1e-12
        )
        np.testing.assert_array_equal(terminated, np.concatenate([r[2] for r in results]))
        if terminated.any():
            final = mix.split(infos["final_obs"])
            for part, padded, result in zip(mix.parts, final, results, strict=True):
                if terminated[part.rows].any():
                    np.testing.assert_array_equal(padded, result[4]["final_obs"])


def test_padding_is_zero_and_its_actions_do_nothing(mix):
    mix.reset(seed=0)
    actions = random_actions(mix, 1)[0]
    state = mix.state_dict()
    first = mix.step(np.where(mix.action_mask, actions, 0))
    mix.load_state_dict(state)
    second = mix.step(np.where(mix.action_mask, actions, np.nan))
    assert_same(first[:4], second[:4])
    limbs = first[0].reshape(mix.num_envs, -1, FEATURES)
    assert not limbs[~mix.limb_mask].any()
    assert np.abs(limbs[mix.limb_mask]).max(axis=1).min() > 0


def test_shared_arrays_can_not_be_written():
    env = sgrl.make_vec("3d_hopper_5_full", 2)
    _, infos = env.reset(seed=0)
    for shared in (env.limb_mask, env.action_mask, env.body_index, infos["_target"]):
        with pytest.raises(ValueError, match="read-only"):
            shared[:] = 0


def test_models_are_not_shared():
    env = LocomotionEnv("3d_hopper_5_full")
    env.model.opt.gravity[:] = 0
    env.reset(seed=0)
    data = sgrl.make_vec("3d_hopper_5_full", 1)
    data.reset(seed=0)
    assert data.get_data(0).model.opt.gravity[2] == -9.81
    assert LocomotionEnv("3d_hopper_5_full").model.opt.gravity[2] == -9.81


def test_a_collection_is_accepted_as_a_value():
    env = sgrl.make_vec(get_collection("3d_hopper++"), 2)
    assert [part.body.num_limbs for part in env.parts] == [3, 4, 5]


def test_joining_and_splitting_check_their_input(mix):
    with pytest.raises(ValueError, match="23 bodies need as many arrays, not 1"):
        mix.join_actions([np.zeros((2, 3))])
    wrong = [np.zeros((2, part.body.action_dim + 1)) for part in mix.parts]
    with pytest.raises(ValueError, match=r"takes actions \(2, "):
        mix.join_actions(wrong)
    with pytest.raises(ValueError, match=r"must have shape \(46, 574\), not \(3, 574\)"):
        mix.split(np.zeros((3, 14 * FEATURES)))


def test_names_values_and_repeats_can_be_mixed():
    own = get_body("3d_walker_7_full").cut("left_foot", name="limper")
    env = sgrl.make_vec([own, "3d_hopper++", own], 1)
    assert env.parts[0].body.name == "limper"
    assert env.num_envs == 5
    env.reset(seed=0)
    env.step(np.zeros(env.action_space.shape))


@pytest.mark.parametrize("bodies", ["3d_cheetah_14_full", "3d_walker++"])
def test_a_saved_state_goes_on_to_the_bit(bodies):
    env = sgrl.make_vec(bodies, 3, variant="v2", max_episode_steps=50)
    actions = random_actions(env, 60)
    env.reset(seed=0)
    for action in actions[:20]:
        env.step(action)
    state = env.state_dict()
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env)), env]
    traces = [[x for action in actions[20:] for x in twin.step(action)[:4]] for twin in twins]
    env.load_state_dict(state)
    traces.append([x for action in actions[20:] for x in env.step(action)[:4]])
    for other in traces[1:]:
        assert_same(traces[0], other)


def test_a_state_of_other_bodies_is_refused():
    arm = sgrl.make_vec("3d_humanoid_7_left_arm", 2)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        arm.state_dict()
    arm.reset(seed=0)
    for name, num_envs in (("3d_humanoid_7_left_arm", 3), ("3d_humanoid_7_right_arm", 2)):
        with pytest.raises(ValueError, match="other bodies or another number of environments"):
            sgrl.make_vec(name, num_envs).load_state_dict(arm.state_dict())


def test_returned_arrays_are_the_callers():
    env = sgrl.make_vec("3d_hopper_5_full", 2)
    first, _ = env.reset(seed=0)
    first[:] = np.nan
    action = np.zeros(env.action_space.shape)
    second, rewards, *_ = env.step(action)
    kept = second.copy()
    env.step(action)
    np.testing.assert_array_equal(second, kept)
    assert np.isfinite(second).all()
    assert np.isfinite(rewards).all()


def test_seeds_may_be_given_one_by_one():
    env = sgrl.make_vec("3d_hopper_5_full", 3)
    together, _ = env.reset(seed=5)
    listed, _ = env.reset(seed=[5, 6, 7])
    np.testing.assert_array_equal(together, listed)
    assert not np.array_equal(env.reset()[0], listed)
    numbers, _ = env.reset(seed=np.array([5, 6, 7]))
    np.testing.assert_array_equal(numbers, listed)
    fresh, _ = sgrl.make_vec("3d_hopper_5_full", 3).reset(seed=[None, 6, None])
    np.testing.assert_array_equal(fresh[1], listed[1])
    assert not np.array_equal(fresh[0], fresh[2])
    for bad in (-1, 1.5, 2**63, [1, 2.5, 3], [1, -2, 3]):
        with pytest.raises(ValueError, match="whole number"):
            env.reset(seed=bad)
    with pytest.raises(ValueError, match="3 environments need as many seeds, not 2"):
        env.reset(seed=[1, 2])


def test_unseeded_environments_differ():
    starts = [sgrl.make_vec("3d_hopper_5_full", 2).reset()[0] for _ in range(2)]
    assert not np.array_equal(*starts)


def test_targets_that_are_reached_are_replaced():
    env = sgrl.make_vec("3d_hopper_5_full", 2, variant="v2")
    far = np.array([[0.9, 0.0], [30.0, 0.0]])
    _, infos = env.reset(seed=0, options={"target": far})
    np.testing.assert_array_equal(infos["target"], far)
    _, rewards, _, _, infos = env.step(np.zeros(env.action_space.shape))
    np.testing.assert_array_equal(infos["targets_reached"], [1, 0])
    # The step is rewarded by the old target; the next one by the new.
    assert np.abs(rewards - 1).max() < 1
    assert 10 <= infos["distance"][0] <= 20
    np.testing.assert_array_equal(infos["target"][1], far[1])


def test_new_targets_are_placed_around_the_agent_in_v2_only():
    qpos = np.zeros(19)
    qpos[:3], qpos[3] = (500.0, -300.0, 1.75), 1.0
    for variant, near, far in (("v2", 10, 20), ("v1", 9400, 10600)):
        env = LocomotionEnv("3d_hopper_5_full", variant=variant)
        options = {"qpos": qpos, "target": (500.5, -300.0)}
        env.reset(seed=0, options=options)
        info = env.step(np.zeros(12))[4]
        assert info["targets_reached"] == 1
        assert near <= info["distance"] <= far
        around = np.array([0.0, 0.0]) if variant == "v1" else qpos[:2]
        low, high = env.task.target_distance
        assert low - 0.1 <= np.hypot(*(info["target"] - around)) <= high + 0.1


def test_half_of_the_episodes_of_a_mix_of_variants_have_far_targets():
    env = sgrl.make_vec("3d_hopper_5_full", 200, variant="mixed")
    _, infos = env.reset(seed=0)
    is_far = infos["distance"] > 9_000
    assert 70 < is_far.sum() < 130
    near = infos["distance"][~is_far]
    assert near.min() < 11 < 19 < near.max() < 20.1
    # What follows a near target is another one, as in v2.
    _, infos = env.reset(options={"target": (0.5, 0.0)})
    infos = env.step(np.zeros(env.action_space.shape))[4]
    assert (infos["targets_reached"] == 1).all()
    assert infos["distance"].max() < 21


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_of_far_episodes_lies_between_none_and_all(share):
    with pytest.raises(ValueError, match="far_episodes is a share"):
        replace(task_for(get_body("3d_hopper_5_full")), far_episodes=share)


def test_a_body_of_ones_own_gets_the_task_of_its_family():
    stump = get_body("3d_walker_7_full").cut("left_shin", "right_shin", name="stump")
    assert task_for(stump).health == task_for(get_body("3d_walker_3_left_knee_right_knee")).health
    env = sgrl.make_env(stump)
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[1] != 0


@pytest.mark.parametrize("name", get_collection("3d_walker++").train)
def test_a_mirror_image_has_the_bounds_of_its_body(name):
    body = get_body(name)
    assert task_for(mirror_of(body).body).health == task_for(body).health


def test_every_start_can_be_turned_the_same_way():
    env = sgrl.make_vec("3d_cheetah_14_full", 8, yaw=0.0, max_episode_steps=2)
    env.reset(seed=0)
    for _ in range(5):
        env.step(np.zeros(env.action_space.shape))
        fresh = env.state_dict()["episode_steps"] == 0
        qpos = np.array([env.get_data(row).qpos for row in np.flatnonzero(fresh)]).reshape(-1, 46)
        assert np.abs(qpos[:, 6]).max(initial=0) < 0.2
        assert qpos[:, 3].min(initial=1) > 0.9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sgrl.make_vec([]), "at least one body"),
        (
            lambda: sgrl.make_vec("3d_hopper_5_full", 0),
            "envs_per_body must be a whole number from 1 to 65,536, not 0",
        ),
        (lambda: sgrl.make_vec("3d_hoper++"), r"did you mean 3d_hopper\+\+"),
        (lambda: sgrl.make_vec("3d_hopper_5_full", render_mode="film"), "unknown render_mode"),
        (lambda: sgrl.make_vec("3d_hopper_5_full", variant="v3"), "unknown variant 'v3'"),
        (
            lambda: sgrl.make_vec("3d_hopper_5_full", max_episode_steps=0),
            "must be a whole number from 1 to",
        ),
        (
            lambda: sgrl.make_vec("3d_hopper_5_full", threads=-1),
            "threads must be a whole number from 0 to 1,024",
        ),
        (
            lambda: sgrl.make_vec("3d_hopper_5_full", width=0),
            "width of a frame must be a whole number from 1 to 8,192 pixels",
        ),
        (lambda: sgrl.make_vec("3d_hopper_5_full", yaw=np.nan), "yaw must be a finite angle"),
        (lambda: sgrl.make_env("3d_hopper_6_full"), "did you mean 3d_hopper_5_full"),
        (lambda: sgrl.make_env("3d_hopper_5_full", height=2.5), "height of a frame must be"),
        (
            lambda: sgrl.make_env("3d_hopper_5_full", task=HOPPER_TASK, yaw=1.0),
            "yaw as a field of the task",
        ),
        (
            lambda: sgrl.make_env("3d_walker_7_full", task=replace(HOPPER_TASK, health=NO_LIMB)),
            "no limb 'wing'",
        ),
    ],
)
def test_what_can_not_be_made_says_why(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_gymnasium_names_the_nearest_environment():
    with pytest.raises(gymnasium.error.NameNotFound, match="3d_hopper_5_full"):
        gymnasium.make("sgrl/3d_hoper_5_full-v1")
