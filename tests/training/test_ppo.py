"""PPO in the training loop: resumed to the bit, read back, and refused where it makes no sense."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sgrl.algorithms.ppo import Ppo
from sgrl.algorithms.ppo_config import PpoConfig
from sgrl.algorithms.td3 import Td3Config
from sgrl.envs import LocomotionVectorEnv
from sgrl.envs.observation import FEATURES
from sgrl.symmetry import rotation
from sgrl.training.checkpoint import list_checkpoints, read_checkpoint
from sgrl.training.loop import train
from sgrl.training.policy import load_policy
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings, resolve_settings, settings_to_json

from .test_resume import start, wait_for_news
from .tiny import TINY, assert_same_run, read_metrics

Make = Callable[..., TrainSettings]
PPO = replace(
    TINY,
    algorithm="ppo",
    warm_up=TrainSettings.warm_up,
    updates_per_step=TrainSettings.updates_per_step,
    td3=Td3Config(),
    ppo=PpoConfig(rollout=12, epochs=2, batch=20),
    steps=960,
    checkpoint_every=100,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nothing interrupted."""
    return train(replace(PPO, runs=tmp_path_factory.mktemp("runs"), name="whole"))


def test_reports_every_row_with_an_update(whole: Path) -> None:
    rows = read_metrics(whole)
    # 48 steps make a rollout; rows come with the update after they are due.
    assert [int(row["steps"]) for row in rows] == [48 * k for k in range(1, 21)]
    assert all(float(row["kl"]) >= 0.0 and float(row["value_grad"]) > 0.0 for row in rows)
    assert int(rows[-1]["updates"]) == 20 * 2 * 2


def test_killed_and_resumed_is_the_same_to_the_bit(whole: Path, tmp_path: Path) -> None:
    settings = replace(PPO, runs=tmp_path / "runs", name="killed")
    given = tmp_path / "settings.json"
    given.write_text(settings_to_json(settings))
    run = settings.runs / "killed"
    process = start(given)
    deadline = time.monotonic() + 60
    while len(list_checkpoints(run / "checkpoints")) < 2 and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    process.communicate()
    left = [int(path.name) for path in list_checkpoints(run / "checkpoints")]
    assert left
    assert max(left) < 960, "it was too late to kill it"
    train(TrainSettings(resume=run))
    assert_same_run(run, whole)


def test_in_the_mirror_it_learns_otherwise_and_resumes_to_the_bit(
    whole: Path, tmp_path: Path
) -> None:
    settings = replace(PPO, ppo=replace(PPO.ppo, mirror=0.3), runs=tmp_path, steps=480)
    at_once = train(replace(settings, name="at_once"))
    in_two = train(replace(settings, name="in_two", steps=240))
    train(TrainSettings(resume=in_two, steps=480))
    assert_same_run(in_two, at_once)
    assert read_metrics(at_once)[:5] != read_metrics(whole)[:5]


def test_a_network_of_one_body_has_no_other_in_the_mirror() -> None:
    sided = replace(
        PPO,
        method="monolithic",
        network=None,
        bodies=("3d_walker_5_left_knee",),
        ppo=PpoConfig(mirror=0.3),
    )
    with pytest.raises(ValueError, match="another one in the mirror"):
        resolve_settings(sided)
    resolve_settings(replace(sided, bodies=("3d_walker_7_full",)))


def test_asked_to_stop_it_finishes_its_rollout(whole: Path, tmp_path: Path) -> None:
    settings = replace(PPO, runs=tmp_path / "runs", name="stopped", checkpoint_every=10_000)
    given = tmp_path / "settings.json"
    given.write_text(settings_to_json(settings))
    run = settings.runs / "stopped"
    process = start(given)
    wait_for_news(process, run / "metrics.csv")
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, errors
    (folder,) = list_checkpoints(run / "checkpoints")
    assert int(folder.name) % 48 == 0
    assert int(folder.name) < 960, output
    train(TrainSettings(resume=run))
    assert_same_run(run, whole)


def test_the_policy_is_read_back_with_its_statistics(whole: Path) -> None:
    policy = load_policy(whole)
    settings = Run(whole).settings()
    checkpoint = read_checkpoint(list_checkpoints(Run(whole).checkpoints)[-1])
    ppo = Ppo("set", "fast", settings.morphologies(), settings.ppo, network=settings.network)
    ppo.load(checkpoint.weights, checkpoint.state["learner"]["training"])
    assert float(ppo.normaliser.count) > 0
    body = settings.morphologies()[0]
    env = LocomotionVectorEnv(body, 3, threads=1)
    seen, _ = env.reset(seed=5)
    wide = np.zeros((3, env.limb_mask.shape[1] * FEATURES), np.float32)
    wide[:, : seen.shape[1]] = seen
    _, means = ppo.act(wide, np.zeros(3, np.int64), np.random.default_rng(0))
    assert np.allclose(policy.act(seen, body), means, atol=1e-6)
    ppo.normaliser.scale.fill_(1.0)
    _, plain = ppo.act(wide, np.zeros(3, np.int64), np.random.default_rng(0))
    assert not np.allclose(means, plain, atol=1e-3)


def test_what_was_trained_keeps_the_symmetry(whole: Path) -> None:
    """On states of a rollout, turned about the vertical, statistics included."""
    policy = load_policy(whole)
    env = LocomotionVectorEnv("3d_hopper_3_shin", 4, threads=1)
    seen, _ = env.reset(seed=1)
    turn = rotation(2.0)
    for _ in range(20):
        limbs = seen.reshape(-1, FEATURES).astype(np.float64)
        vectors = limbs[:, :24].reshape(-1, 8, 3) @ turn.T
        turned = np.hstack([vectors.reshape(-1, 24), limbs[:, 24:]]).reshape(seen.shape)
        actions = policy.act(seen, "3d_hopper_3_shin")
        other = policy.act(turned.astype(np.float32), "3d_hopper_3_shin")
        assert np.abs(actions - other).max() < 1e-4
        assert np.abs(actions).max() > 1e-3
        seen, *_ = env.step(actions)


def test_second_stage_on_other_bodies_and_targets(whole: Path, tmp_path: Path) -> None:
    path = train(
        replace(
            PPO,
            bodies=("3d_hopper_4_lower_shin",),
            variant="v2",
            runs=tmp_path,
            init_from=whole,
            steps=48,
        )
    )
    assert read_metrics(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warm_up": 5}, "warm_up is a setting of TD3"),
        ({"buffer": 100}, "buffer is a setting of TD3"),
    ],
)
def test_settings_of_td3_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_settings(replace(PPO, **changes))


def test_weights_of_another_algorithm_are_refused(whole: Path, tiny: Make) -> None:
    with pytest.raises(ValueError, match="of another algorithm: ppo, not td3"):
        train(tiny(init_from=whole))


def test_settings_of_the_other_algorithm_are_refused() -> None:
    with pytest.raises(ValueError, match=r"--td3\.batch: only with --algorithm td3, not ppo"):
        resolve_settings(replace(PPO, td3=Td3Config(batch=7)))


@pytest.mark.parametrize("method", ["swat", "smp", "monolithic+hn", "swat+tn", "set-z"])
def test_other_methods_learn_too(method: str, tmp_path: Path) -> None:
    path = train(
        replace(
            PPO,
            method=method,
            bodies=("3d_hopper_3_shin",),
            network=None,
            steps=24,
            log_every=24,
            runs=tmp_path,
        )
    )
    assert float(read_metrics(path)[-1]["policy_grad"]) > 0.0


def test_copies_are_shared_by_the_bodies() -> None:
    one = resolve_settings(TrainSettings(bodies=("3d_hopper_3_shin",), algorithm="ppo"))
    many = resolve_settings(TrainSettings(bodies=("3d_cwhh++",), algorithm="ppo"))
    assert one.copies == 64
    assert many.copies == 4
    some = resolve_settings(TrainSettings(bodies=("3d_hopper++",), algorithm="ppo"))
    assert some.copies == 64 // len(some.bodies)
    assert resolve_settings(TrainSettings(bodies=("3d_cwhh++",))).copies == 4
