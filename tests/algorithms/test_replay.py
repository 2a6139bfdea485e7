"""The replay buffer: what it keeps, what it draws, and that a kill takes nothing."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from sgrl.algorithms import record_ring
from sgrl.algorithms.replay import Replay
from sgrl.envs.observation import FEATURES
from sgrl.morphology import resolve_bodies

SMALL, LARGE = BODIES = resolve_bodies(("3d_walker_2_right_leg_left_knee", "3d_hopper_5_full"))
WIDTH = LARGE.num_limbs * FEATURES


def numbered(body_index, numbers):
    """Transitions told apart by their numbers, as arguments of `add`; NaN in the padding."""
    body_index, numbers = np.asarray(body_index), np.asarray(numbers, np.float64)
    observations = np.full((len(body_index), WIDTH), np.nan)
    actions = np.full((len(body_index), LARGE.action_dim), np.nan)
    for row, (index, number) in enumerate(zip(body_index, numbers, strict=True)):
        observations[row, : BODIES[index].num_limbs * FEATURES] = number
        actions[row, : BODIES[index].action_dim] = -number
    return body_index, observations, actions, 10 * numbers, observations + 0.5, numbers % 2 == 1


def drawn(replay, body=None, rows=2000):
    """The different rewards among many samples."""
    return set(replay.sample(rows, np.random.default_rng(0), body=body).rewards.tolist())


def test_a_sample_holds_what_was_added_padded_with_zeros():
    replay = Replay(BODIES, 100)
    replay.add(*numbered([1, 0, 1], [1, 2, 3]))
    batch = replay.sample(50, np.random.default_rng(0))
    assert batch.obs.shape == batch.next_obs.shape == (50, WIDTH)
    assert batch.actions.shape == (50, LARGE.action_dim)
    assert set(batch.body_index) == {0, 1}
    for row, index in enumerate(batch.body_index):
        body, number = BODIES[index], batch.rewards[row].item() / 10
        assert number in ({1, 3} if index == 1 else {2})
        limbs = body.num_limbs * FEATURES
        assert (batch.obs[row, :limbs] == number).all()
        assert (batch.next_obs[row, :limbs] == number + 0.5).all()
        assert (batch.actions[row, : body.action_dim] == -number).all()
        assert not batch.obs[row, limbs:].any()
        assert not batch.next_obs[row, limbs:].any()
        assert not batch.actions[row, body.action_dim :].any()
        assert batch.terminated[row] == number % 2
    # One body's batch is no wider than the body.
    batch = replay.sample(5, np.random.default_rng(0), body=0)
    assert set(batch.body_index) == {0}
    assert batch.obs.shape == (5, SMALL.num_limbs * FEATURES)
    assert batch.actions.shape == (5, SMALL.action_dim)


def test_all_stored_transitions_are_drawn_alike():
    replay = Replay(BODIES, 100)
    replay.add(*numbered([0, 0, 0, 1], [1, 2, 3, 4]))
    rewards = replay.sample(40_000, np.random.default_rng(0)).rewards
    counts = np.unique(rewards.numpy(), return_counts=True)[1]
    # 10,000 each; the standard deviation is 87.
    assert np.abs(counts - 10_000).max() < 400


def test_the_newest_are_kept_with_an_equal_share_for_each_body():
    replay = Replay(BODIES, 8)
    assert len(replay) == 0
    with pytest.raises(ValueError, match="nothing to sample"):
        replay.sample(1, np.random.default_rng(0))
    replay.add(*numbered([0, 1, 1], [1, 1, 2]))
    assert len(replay) == 3
    assert replay.sizes.tolist() == [1, 2]
    for number in range(3, 9):
        replay.add(*numbered([1], [number]))
    assert replay.sizes.tolist() == [1, 4]
    assert drawn(replay, body=1) == {50, 60, 70, 80}
    # More at once than the ring is long.
    replay.add(*numbered([1] * 11, range(10, 21)))
    assert drawn(replay, body=1) == {170, 180, 190, 200}
    assert drawn(replay) == {10, 170, 180, 190, 200}


@pytest.mark.parametrize("in_files", [False, True])
def test_slack_protects_what_a_checkpoint_refers_to(tmp_path, in_files):
    replay = Replay(BODIES, 20, folder=tmp_path if in_files else None, slack=12)
    for number in range(23):
        replay.add(*numbered([0, 1], [number, number]))
    state, before = replay.state_dict(), drawn(replay)
    assert before == {10.0 * number for number in range(13, 23)}
    for number in range(100, 106):
        replay.add(*numbered([0, 1], [number, number]))
    assert drawn(replay) != before
    replay.load_state_dict(state)
    assert drawn(replay) == before
    for number in range(100, 107):
        replay.add(*numbered([0, 1], [number, number]))
    with pytest.raises(ValueError, match="slack was too small"):
        replay.load_state_dict(state)
    assert 1060 in drawn(replay)


def test_files_grow_as_they_fill(tmp_path):
    replay = Replay(BODIES, 100_000, folder=tmp_path)
    taken = [sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir())]
    for _ in range(2):
        replay.add(*numbered([0, 1] * 500, range(1000)))
        replay.flush()
        taken.append(sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir()))
    thousand = Replay(BODIES, 1000).num_bytes
    assert taken[0] < 20_000
    assert taken[1] == pytest.approx(thousand, rel=0.1)
    assert taken[2] == pytest.approx(2 * thousand, rel=0.1)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 100 * thousand


def test_a_killed_process_leaves_what_it_added(tmp_path):
    """Added, state noted, added more, killed: opened again, the same samples to the bit."""
    program = f"""
        import json, os, signal
        import numpy as np
        from pathlib import Path
        from sgrl.algorithms.replay import Replay
        from sgrl.morphology import resolve_bodies

        bodies = resolve_bodies({[body.name for body in BODIES]})
        folder = Path({str(tmp_path)!r})
        replay = Replay(bodies, 40, folder=folder / "replay", slack=20)
        rng = np.random.default_rng(0)

        def add(count):
            for _ in range(count):
                observations = rng.standard_normal((2, 2, {WIDTH}))
                actions = rng.standard_normal((2, {LARGE.action_dim}))
                replay.add(np.arange(2), observations[0], actions, rng.random(2),
                           observations[1], np.zeros(2))

        add(30)
        (folder / "state.json").write_text(json.dumps(replay.state_dict()))
        np.save(folder / "sample.npy", replay.sample(64, np.random.default_rng(1)).obs)
        add(10)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    replay = Replay(BODIES, 40, folder=tmp_path / "replay", slack=20)
    assert len(replay) == 0
    replay.load_state_dict(json.loads((tmp_path / "state.json").read_text()))
    assert replay.sizes.tolist() == [20, 20]
    again = replay.sample(64, np.random.default_rng(1)).obs
    np.testing.assert_array_equal(again, np.load(tmp_path / "sample.npy"))


def test_files_or_states_of_another_buffer_are_refused(tmp_path):
    replay = Replay(BODIES, 40, folder=tmp_path)
    replay.add(*numbered([0, 1], [1, 2]))
    state = replay.state_dict()
    with pytest.raises(ValueError, match="written for another body, capacity or slack"):
        Replay(BODIES, 60, folder=tmp_path)
    with pytest.raises(ValueError, match="other bodies or another size"):
        Replay(BODIES, 60).load_state_dict(state)
    with pytest.raises(ValueError, match="other bodies or another size"):
        Replay(BODIES[::-1], 40).load_state_dict(state)
    with pytest.raises(ValueError, match="it was written for another body, capacity or slack"):
        Replay(BODIES, 20, folder=tmp_path)
    (file, _) = sorted(tmp_path.iterdir())
    os.truncate(file, 1000)
    with pytest.raises(ValueError, match=r"f32 holds 1,000 bytes, not \d.*: it is truncated, or"):
        Replay(BODIES, 40, folder=tmp_path)
    # Files that were lost: nothing is there to go back to.
    shutil.rmtree(tmp_path)
    with pytest.raises(ValueError, match="is gone, as it is after"):
        Replay(BODIES, 40, folder=tmp_path).load_state_dict(state)


def test_more_than_fits_is_refused(tmp_path, monkeypatch):
    needed = Replay(BODIES, 10_000).num_bytes
    monkeypatch.setattr(record_ring, "free_bytes", lambda folder: needed)
    Replay(BODIES, 10_000)
    with pytest.raises(
        ValueError, match=r"10,002 transitions takes 0\.\d+ GB and does not fit in mem"
    ):
        Replay(BODIES, 10_002)
    Replay(BODIES, 9_900, slack=100)
    with pytest.raises(ValueError, match=r"the disk of .*; take a smaller buffer_size"):
        Replay(BODIES, 10_000, folder=tmp_path / "new", slack=100)
    assert not list((tmp_path / "new").iterdir())


def test_what_is_free_is_asked_of_the_machine(tmp_path, monkeypatch):
    assert 0 < record_ring.free_bytes(None) <= os.sysconf("SC_PHYS_PAGES") * 4096 * 16
    free = 2_000_000_000
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=free))
    (tmp_path / "old.f32").write_bytes(bytes(1_000_000))
    assert free + 900_000 < record_ring.free_bytes(tmp_path) < free + 1_100_000


def test_files_of_version_0_1_are_read(tmp_path):
    """A record is as it was: float32 numbers in this order, and the serial number's bits."""
    replay = Replay(BODIES, 8, folder=tmp_path)
    replay.add(*numbered([0], [3]))
    replay.flush()
    (file, _) = sorted(tmp_path.iterdir())
    numbers = np.fromfile(file, np.float32).reshape(4, -1)
    width, action_dim = SMALL.num_limbs * FEATURES, SMALL.action_dim
    expected = [3] * width + [3.5] * width + [-3] * action_dim + [30, 1]
    assert numbers[0, :-1].tolist() == expected
    assert numbers[0, -1:].view(np.int32) == 1
    assert not numbers[1:].any()


def test_serial_numbers_start_again(tmp_path):
    ring = record_ring.RecordRing(np.dtype([("serial", np.int8), ("number", np.int8)]), 5, None)
    for number in range(300):
        ring.append(np.array([(0, number % 100)], ring.records.dtype))
    assert ring.records["serial"].min() >= 1
    assert [ring.holds(number) for number in range(294, 300)] == [False, *[True] * 5]


def test_a_full_disk_is_an_error_and_not_a_signal(tmp_path, monkeypatch):
    replay = Replay(BODIES, 100, folder=tmp_path)
    replay.add(*numbered([0, 1], [1, 2]))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            replay.add(*numbered([0, 1], [3, 4]))
    assert drawn(replay) == {10, 20}


def test_senseless_sizes_are_refused():
    for bodies, capacity, slack in (((), 10, 0), (BODIES, 1, 0), (BODIES, 10, -1)):
        with pytest.raises(ValueError, match="a replay buffer needs"):
            Replay(bodies, capacity, slack=slack)
