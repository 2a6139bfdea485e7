"""The replay buffer of n steps: what it stores, what it gives back, what it keeps."""

import numpy as np
import pytest

from sgrl.algorithms.replay_buffer import ReplayBuffer, bytes_per_step, record_type
from sgrl.envs.columns import mirrored_restoration, restoration, varying_columns
from sgrl.envs.observation import FEATURES, mirrored
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.morphology import get_body, mirror_of

HOPPER = get_body("3d_hopper_3_shin")
WALKER = get_body("3d_walker_3_left_leg_right_foot")
FULL = ["3d_hopper_5_full", "3d_walker_7_full", "3d_humanoid_9_full", "3d_cheetah_14_full"]


def numbered(body, number):
    """An observation of a body that varies in every column that can."""
    flat = np.zeros(body.num_limbs * FEATURES, np.float32)
    flat[varying_columns(body)] = number
    return flat


def filled(steps, return_steps=1, gamma=0.5, ends=(), cuts=(), envs=1, **how):
    """A buffer of a hopper: observation t at step t, reward t, falls after `ends`, time-outs after
    `cuts`, whose last observation is 1000 + t."""
    buffer = ReplayBuffer([HOPPER], 100, [return_steps], [gamma], **how)
    for t in range(steps):
        obs = np.tile(numbered(HOPPER, t), (envs, 1))
        final = np.tile(numbered(HOPPER, 1000 + t if t in (*ends, *cuts) else t + 1), (envs, 1))
        done = np.full(envs, t in ends or t in cuts)
        actions = np.full((envs, HOPPER.action_dim), t / 100)
        fell = np.full(envs, t in ends)
        buffer.add(np.zeros(envs, int), obs, actions, np.full(envs, float(t)), final, fell, done)
    return buffer


def by_start(buffer, rows=400):
    """Sampled rows by the number of their first observation: return, discount, last number."""
    sample = buffer.sample(rows, np.random.default_rng(0))
    return {
        int(first): (float(r), float(d), int(last), float(a))
        for first, r, d, last, a in zip(
            sample.columns[:, 0],
            sample.rewards,
            sample.discounts,
            sample.last_columns[:, 0],
            sample.actions[:, 0],
            strict=True,
        )
    }


def test_one_step_by_hand():
    rows = by_start(filled(5, ends=(2,)))
    assert rows == {
        0: (0.0, 0.5, 1, 0.0),
        1: (1.0, 0.5, 2, pytest.approx(0.01)),
        2: (2.0, 0.0, 1002, pytest.approx(0.02)),
        3: (3.0, 0.5, 4, pytest.approx(0.03)),  # what follows 4 is not known yet
    }


def test_three_steps_by_hand():
    """R = r0 + gamma r1 + gamma^2 r2, and fewer rewards where the episode ends."""
    rows = by_start(filled(9, return_steps=3, ends=(4,)))
    assert {start: row[:3] for start, row in rows.items()} == {
        0: (0 + 0.5 * 1 + 0.25 * 2, 0.125, 3),
        1: (1 + 0.5 * 2 + 0.25 * 3, 0.125, 4),
        2: (2 + 0.5 * 3 + 0.25 * 4, 0.0, 1004),
        3: (3 + 0.5 * 4, 0.0, 1004),
        4: (4.0, 0.0, 1004),
        5: (5 + 0.5 * 6 + 0.25 * 7, 0.125, 8),
    }


def test_time_limits_bootstrap_from_the_true_last_observation():
    rows = by_start(filled(9, return_steps=3, cuts=(4,)))
    assert rows[4][:3] == (4.0, 0.5, 1004)
    assert rows[3][:3] == (3 + 0.5 * 4, 0.25, 1004)
    assert rows[2][:3] == (2 + 0.5 * 3 + 0.25 * 4, 0.125, 1004)


def test_each_observation_is_stored_once():
    buffer = filled(20, ends=(4, 9))
    (ring,) = buffer._rings
    assert ring.added == 20 + 2
    assert bytes_per_step(HOPPER) < 4 * (HOPPER.num_limbs * 30 + HOPPER.action_dim + 12)


def test_a_ring_that_overflows_keeps_the_newest():
    buffer = filled(150, return_steps=2)
    starts = by_start(buffer, 2000)
    assert min(starts) >= 50
    assert max(starts) == 147
    assert all(row[2] == start + 2 for start, row in starts.items())


def test_state_goes_back_to_the_bit(tmp_path):
    slack = 40
    buffer = filled(120, 2, ends=(30, 60), slack=slack, folder=tmp_path)
    state, before = buffer.state_dict(), buffer.sample(50, np.random.default_rng(5))
    for t in range(slack):  # each ends an episode, which takes two records
        one = np.ones(1, bool)
        obs = numbered(HOPPER, 500 + t)[None]
        buffer.add(np.zeros(1, int), obs, np.zeros((1, 6)), np.zeros(1), obs, one, one)
    buffer.flush()
    again = ReplayBuffer([HOPPER], 100, [2], [0.5], folder=tmp_path, slack=slack)
    again.load_state_dict(state)
    after = again.sample(50, np.random.default_rng(5))
    for name in ("columns", "actions", "rewards", "discounts", "last_columns"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


def test_refuses_what_was_overwritten(tmp_path):
    buffer = filled(120, folder=tmp_path)
    state = buffer.state_dict()
    one = np.zeros(1, bool)
    obs = numbered(HOPPER, 7)[None]
    buffer.add(np.zeros(1, int), obs, np.zeros((1, 6)), np.zeros(1), obs, one, one)
    with pytest.raises(ValueError, match="newer records have taken its place"):
        buffer.load_state_dict(state)


def test_memory_is_known_and_checked():
    buffer = ReplayBuffer([HOPPER, WALKER], 1000, [1, 1], [0.9, 0.9], slack=10)
    sizes = [record_type(body).itemsize for body in (HOPPER, WALKER)]
    assert buffer.num_bytes == (500 + 2 * 5) * sum(sizes)
    with pytest.raises(ValueError, match=r"does not fit in memory, which has .* smaller"):
        ReplayBuffer([HOPPER], 10**12, [1], [0.9])


@pytest.mark.parametrize("name", [*FULL, WALKER.name, "3d_humanoid_7_left_arm"])
def test_columns_hold_all_that_varies(name):
    """What is stored of an observation gives it back, and its mirror image."""
    body = get_body(name)
    env = LocomotionVectorEnv(body, 3, threads=1)
    rng, obs = np.random.default_rng(0), env.reset(seed=0)[0]
    for _ in range(10):
        obs = env.step(rng.uniform(-1, 1, env.action_mask.shape))[0]
    stored = obs[:, varying_columns(body)]
    for way, expected in (
        (restoration(body), obs),
        (mirrored_restoration(body), mirrored(obs, mirror_of(body))),
    ):
        restored = stored[:, way.sources] * way.factors + way.offsets
        np.testing.assert_allclose(restored, expected, atol=1e-6)
