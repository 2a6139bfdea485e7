"""Friction, mass, late motors, noise and pushes do in physics what their names say."""

import copy
import pickle
import re
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest

import sgrl
from sgrl.envs import observation as layout
from sgrl.envs.disturbances import LEVELS, NOISE
from sgrl.envs.single import step_together
from sgrl.training.evaluate import evaluate, evaluation_seeds

WALKER, CHEETAH, HOPPER = "3d_walker_7_full", "3d_cheetah_14_full", "3d_hopper_5_full"
ALL = {
    "friction": 0.6,
    "mass": 1.3,
    "motor_delay": 2,
    "observation_noise": 1.0,
    "push": 0.7,
    "push_interval": 0.1,
}


def actions_for(env, count, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (count, *env.action_space.shape))


def slid(friction):
    """Metres that a cheetah without torque slides from 4 m/s until it has stopped."""
    env = sgrl.make_env(CHEETAH, disturbances={"friction": friction}).unwrapped
    qpos, qvel = np.zeros(46), np.zeros(45)
    qpos[2], qpos[3], qvel[0] = 0.5, 1.0, 4.0
    env.reset(seed=0, options={"qpos": qpos, "qvel": qvel})
    for _ in range(50):
        env.step(np.zeros(39))
    return env.data.qpos[0]


def test_on_less_friction_a_body_slides_further():
    far, usual, short = slid(0.2), slid(1.0), slid(5.0)
    assert far > 1.3 * usual > 1.3 * short


def test_friction_scales_that_of_every_contact():
    coefficients = []
    for friction in (1.0, 0.5):
        env = sgrl.make_env(CHEETAH).unwrapped
        env.reset(seed=0, options={"friction": friction})
        for _ in range(20):
            env.step(np.zeros(39))
        assert env.data.ncon > 0
        coefficients.append({float(c.friction[0]) for c in env.data.contact})
    assert coefficients[1] == {0.5 * value for value in coefficients[0]}


def test_mass_is_that_of_the_whole_body_and_slows_what_motors_move():
    masses, forces, turned = [], [], []
    for mass in (1.0, 2.0):
        env = sgrl.make_env(WALKER, disturbances={"mass": mass}).unwrapped
        qpos = np.zeros(25)
        qpos[2], qpos[3] = 3.0, 1.0
        env.reset(seed=0, options={"qpos": qpos})
        masses.append(mujoco.mj_getTotalmass(env.model))
        forces.append(env.data.qfrc_bias[2])
        action = np.zeros(18)
        action[env.body.actuated] = 0.5
        env.step(action)
        turned.append(np.linalg.norm(env.data.qvel[3:6]))
    assert masses[1] == pytest.approx(2 * masses[0])
    assert forces[1] == pytest.approx(2 * forces[0])
    assert turned[1] < 0.8 * turned[0]


@pytest.mark.parametrize("delay", [1, 3])
def test_a_late_motor_does_what_was_asked_some_steps_before(delay):
    late = sgrl.make_env(CHEETAH, disturbances={"motor_delay": delay}).unwrapped
    prompt = sgrl.make_env(CHEETAH).unwrapped
    late.reset(seed=0)
    prompt.reset(seed=0)
    actions = actions_for(late, 12)
    shifted = np.concatenate([np.zeros((delay, 39)), actions])
    for action, earlier in zip(actions, shifted, strict=False):
        seen, _, _, _, info = late.step(action)
        np.testing.assert_array_equal(seen, prompt.step(earlier)[0])
        # What an action costs, it costs when it is given.
        assert info["reward_control"] == pytest.approx(-0.001 * np.square(action).sum())


def test_noise_is_seen_and_changes_nothing_else():
    quiet, noisy = (
        sgrl.make_vec(WALKER, 64, disturbances=levels)
        for levels in (None, {"observation_noise": 2})
    )
    seen = [[env.reset(seed=0)[0]] for env in (quiet, noisy)]
    for action in actions_for(quiet, 3):
        for env, trace in zip((quiet, noisy), seen, strict=True):
            trace.append(env.step(action)[0])
    for row in (0, 63):
        np.testing.assert_array_equal(quiet.get_data(row).qpos, noisy.get_data(row).qpos)
    quiet, noisy = (np.reshape(trace, (4, 64, 7, layout.FEATURES)) for trace in seen)
    noise = noisy.astype(float) - quiet
    untouched = np.ones(layout.FEATURES, bool)
    for part, deviation in NOISE:
        untouched[part] = False
        limbs = noise[:, :, 1:, part]
        assert limbs.std() == pytest.approx(2 * deviation, rel=0.05)
        assert abs(limbs.mean()) < 0.2 * deviation
    assert not noise[:, :, 0, layout.POSITION].any()
    assert not noise[:, :, 0, layout.ANGLES].any()
    scaled = noise[:, :, 1:, layout.SCALED_ANGLES]
    untouched[layout.SCALED_ANGLES] = False
    assert not noise[..., untouched].any()
    slope, _ = layout.angle_scale(sgrl.get_body(WALKER))
    np.testing.assert_allclose(scaled, noise[:, :, 1:, layout.ANGLES] * slope[1:], atol=1e-5)
    # Fresh numbers at every step and in every environment.
    assert abs(np.corrcoef(noise[0, :, 1:, :3].ravel(), noise[1, :, 1:, :3].ravel())[0, 1]) < 0.1


def test_a_push_adds_a_sideways_velocity_of_its_size_when_it_is_due():
    pushed = sgrl.make_env(HOPPER, disturbances={"push": 1.5, "push_interval": 0.04}).unwrapped
    calm = sgrl.make_env(HOPPER).unwrapped
    qpos = np.zeros(19)
    qpos[2], qpos[3] = 5.0, 1.0  # in the air, where nothing else pushes
    for env in (pushed, calm):
        env.reset(seed=0, options={"qpos": qpos})
    total = np.zeros(2)
    for step in range(1, 16):
        before = total
        for env in (pushed, calm):
            env.step(np.zeros(12))
        total = (pushed.data.qvel - calm.data.qvel)[:2].copy()
        kick = np.hypot(*(total - before))
        assert kick == pytest.approx(1.5 if step % 5 == 0 else 0.0, abs=1e-6)


@pytest.mark.parametrize("bodies", [CHEETAH, [HOPPER, WALKER]])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_a_row_is_the_single_environment_to_the_bit(bodies, mode):
    settings = {"variant": "v2", "disturbances": ALL}
    names = [bodies] if isinstance(bodies, str) else bodies
    vector = sgrl.make_vec(bodies, 2, max_episode_steps=30, autoreset_mode=mode, **settings)
    singles = [sgrl.make_env(name, max_episode_steps=30, **settings) for name in names]
    observations = vector.split(vector.reset(seed=0)[0])
    rows = [part.start + 1 for part in vector.parts]
    waiting = [False] * len(singles)
    for env, row, seen in zip(singles, rows, observations, strict=True):
        np.testing.assert_array_equal(env.reset(seed=row)[0], seen[1])
    for action in actions_for(vector, 70):
        seen, rewards, terminated, truncated, infos = vector.step(action)
        last = vector.split(infos["final_obs"]) if "final_obs" in infos else None
        for i, (env, row) in enumerate(zip(singles, rows, strict=True)):
            if waiting[i]:
                np.testing.assert_array_equal(env.reset()[0], vector.split(seen)[i][1])
                waiting[i] = False
                continue
            own, reward, ended, timed_out, _ = env.step(action[row, : env.action_space.shape[0]])
            assert (rewards[row], terminated[row], truncated[row]) == (
                pytest.approx(reward, abs=1e-12),
                ended,
                timed_out,
            )
            if not (ended or timed_out):
                np.testing.assert_array_equal(own, vector.split(seen)[i][1])
            elif mode == "NextStep":
                np.testing.assert_array_equal(own, vector.split(seen)[i][1])
                waiting[i] = True
            else:
                np.testing.assert_array_equal(own, last[i][1])
                np.testing.assert_array_equal(env.reset()[0], vector.split(seen)[i][1])


def test_environments_stepped_together_are_each_their_own():
    settings = [{}, {"disturbances": ALL}, {"disturbances": {"motor_delay": 1}}]
    names = [HOPPER, WALKER, HOPPER]
    pairs = [
        [
            sgrl.make_env(n, variant="v2", **s).unwrapped
            for n, s in zip(names, settings, strict=True)
        ]
        for _ in range(2)
    ]
    rng = np.random.default_rng(0)
    for envs in pairs:
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
    for step in range(25):
        actions = [rng.uniform(-1, 1, env.action_space.shape) for env in pairs[0]]
        together = step_together(pairs[0], actions)
        alone = [env.step(action) for env, action in zip(pairs[1], actions, strict=True)]
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_array_equal(a[0], b[0])
        if step == 12:
            for envs in pairs:
                envs[1].reset()


def test_options_hold_for_one_episode_and_may_differ_by_environment():
    env = sgrl.make_vec(WALKER, 3, max_episode_steps=5)
    env.reset(seed=0, options={"mass": [1.0, 2.0, 3.0], "friction": 0.5})
    batch = env._stepper.batches[0]
    mass = batch.expand("body_mass").sum(axis=1)
    np.testing.assert_allclose(mass / mass[0], [1, 2, 3])
    np.testing.assert_allclose(
        batch.expand("geom_friction")[..., 0],
        0.5 * batch.model.geom_friction[:, 0] * np.ones((3, 1)),
    )
    plain = sgrl.make_vec(WALKER, 3, max_episode_steps=5)
    plain.reset(seed=0)
    actions = actions_for(env, 12)
    traces = [[each.step(action)[0] for action in actions] for each in (env, plain)]
    assert not np.array_equal(traces[0][3], traces[1][3])
    np.testing.assert_array_equal(traces[0][4:], traces[1][4:])


def test_a_start_is_the_same_with_and_without():
    plain, harder = sgrl.make_env(WALKER), sgrl.make_env(WALKER)
    for seed in (None, None, 3):
        options = {"push": 1.0, "push_interval": 0.05, "mass": 2.0, "motor_delay": 1}
        if seed is None:
            plain.reset(seed=1)
            harder.reset(seed=1, options=options)
        for _ in range(8):
            harder.step(np.zeros(18))
        np.testing.assert_array_equal(plain.reset(seed=seed)[0], harder.reset(seed=seed)[0])


@pytest.mark.parametrize("make", ["vector", "single"])
def test_a_saved_state_goes_on_to_the_bit(make):
    if make == "vector":
        env = sgrl.make_vec([CHEETAH, HOPPER], 2, max_episode_steps=20)
        env.reset(seed=0, options={**ALL, "mass": [0.8, 1.0, 1.5, 2.0]})
    else:
        env = sgrl.make_env(CHEETAH, disturbances=ALL)
        env.reset(seed=0)
    actions = actions_for(env, 30)
    last = [env.step(action)[0] for action in actions[:7]][-1]
    twins = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env), env]
    if make == "vector":
        fresh = sgrl.make_vec([CHEETAH, HOPPER], 2, max_episode_steps=20)
        np.testing.assert_array_equal(fresh.load_state_dict(env.state_dict()), last)
        twins.insert(0, fresh)
    traces = [[twin.step(action)[0] for action in actions[7:20]] for twin in twins]
    for trace in traces[1:]:
        np.testing.assert_array_equal(traces[0], trace)


def test_a_state_without_disturbances_ends_them():
    env, plain = sgrl.make_vec(WALKER, 2), sgrl.make_vec(WALKER, 2)
    plain.reset(seed=0)
    env.reset(seed=5, options=ALL)
    env.step(np.zeros((2, 18)))
    env.load_state_dict(plain.state_dict())
    for action in actions_for(env, 5):
        np.testing.assert_array_equal(env.step(action)[0], plain.step(action)[0])


class Wave:
    """Actions that depend on the observation, row by row."""

    def act(self, obs, body, /):
        return np.sin(5 * obs[..., : body.action_dim], dtype=np.float32)


def test_an_evaluation_takes_them_as_options():
    (result,) = evaluate(Wave(), HOPPER, episodes=6, seed=3, options=ALL)
    body, lengths = sgrl.get_body(HOPPER), set()
    for episode, seed in zip(result.episodes, evaluation_seeds(3, 6), strict=True):
        env = sgrl.make_env(HOPPER)
        observation, _ = env.reset(seed=seed, options=ALL)
        total, length, ended = 0.0, 0, False
        while not ended:
            observation, reward, ended, _, _ = env.step(Wave().act(observation, body))
            total, length = total + reward, length + 1
        assert (episode.length, episode.total_reward) == (length, pytest.approx(total))
        lengths.add(length)
    assert len(lengths) > 1


def test_gymnasium_passes_them_on():
    env = gymnasium.make(f"sgrl/{HOPPER}-v1", disturbances={"mass": 2.0})
    plain = gymnasium.make(f"sgrl/{HOPPER}-v1")
    heavy, usual = (mujoco.mj_getTotalmass(e.unwrapped.model) for e in (env, plain) if e.reset())
    assert heavy == pytest.approx(2 * usual)
    assert gymnasium.make_vec(f"sgrl/{HOPPER}-v1", 2, disturbances={"mass": 2.0}).num_envs == 2


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"friction": 0.0}, "friction is a number from 0.05 to 20 .*, not 0.0"),
        ({"mass": 1e30}, "mass is a number from 0.1 to 10 .*, not 1e[+]30"),
        ({"motor_delay": 1.5}, "motor_delay is a whole number from 0 to 10 .*, not 1.5"),
        ({"motor_delay": 11}, "motor_delay is a whole number"),
        ({"observation_noise": -1}, "observation_noise is a number from 0"),
        ({"push": np.nan}, "push is a number from 0 to 20"),
        ({"push": "hard"}, "push must be numbers, not 'hard'"),
        ({"push_interval": 0}, "push_interval is a number from 0.01"),
        ({"wind": 1.0}, "unknown (disturbance|reset option) 'wind'.* friction, mass"),
    ],
)
def test_levels_have_bounds(levels, message):
    env = sgrl.make_env(WALKER)
    with pytest.raises(ValueError, match=message):
        sgrl.make_vec(WALKER, 2, disturbances=levels)
    with pytest.raises(ValueError, match=message):
        env.reset(options=levels)


def test_the_page_has_every_level_with_its_bounds():
    page = (Path(__file__).parents[2] / "docs" / "howto" / "disturb.md").read_text()
    for name, level in LEVELS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        numbers = [float(cell) for cell in re.findall(r"\| ([\d.]+) (?=\|)", row)]
        assert numbers == [level.none, level.least, level.most], row
