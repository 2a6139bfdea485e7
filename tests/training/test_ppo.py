"""PPO in the training loop: resumed to the bit, read back, and refused where it makes no sense."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sgrl.algorithms.ppo import PPO as PPOLearner
from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.envs import LocomotionVectorEnv
from sgrl.envs.observation import FEATURES
from sgrl.symmetry import rotation
from sgrl.training.checkpoint import list_checkpoints, read_checkpoint
from sgrl.training.learners import make_learner
from sgrl.training.loop import train
from sgrl.training.policy import load_policy
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings, resolve_settings
from sgrl.training.settings_file import settings_to_json

from .test_resume import start, wait_for_news
from .tiny import TINY, assert_same_run, read_metrics

Make = Callable[..., TrainSettings]
PPO = replace(
    TINY,
    algorithm="ppo",
    config=PPOConfig(n_steps=12, n_epochs=2, batch_size=20),
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
    assert all(
        float(row["approx_kl"]) >= 0.0 and float(row["value_grad_norm"]) > 0.0 for row in rows
    )
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
    settings = replace(
        PPO, config=replace(PPO.config, mirror_loss_coef=0.3), runs=tmp_path, steps=480
    )
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
        config=PPOConfig(mirror_loss_coef=0.3),
    )
    with pytest.raises(ValueError, match="the mirror image of 3d_walker_5_left_knee is another"):
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
    body = settings.morphologies()[0]
    env = LocomotionVectorEnv(settings.morphologies(), 3, threads=1)
    ppo = make_learner(settings, env, None)
    assert isinstance(ppo, PPOLearner)
    ppo.load_weights(checkpoint.weights)
    assert float(ppo.normalizer.count) > 0
    obs, _ = env.reset(seed=5)
    means = ppo.act(obs)[1]["means"][:3]
    numbers = body.num_limbs * FEATURES
    assert np.allclose(policy.act(obs[:3, :numbers], body), means[:, : body.action_dim], atol=1e-6)
    ppo.normalizer.scale.fill_(1.0)
    plain = ppo.act(obs)[1]["means"][:3]
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


def test_td3_goes_on_with_the_policy_of_ppo(whole: Path, tiny: Make) -> None:
    run = train(tiny(init_from=whole, utd_ratio=0.0))
    assert "critic began anew" in (run / "log.txt").read_text()
    obs = np.random.default_rng(0).normal(size=(5, 3 * FEATURES)).astype(np.float32)
    own, other = (load_policy(path).act(obs, "3d_hopper_3_shin") for path in (run, whole))
    assert np.allclose(own, other, atol=1e-6)


def test_the_config_of_another_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the config of ppo is a PPOConfig, not TD3Config"):
        resolve_settings(replace(PPO, config=TINY.config))


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
    assert float(read_metrics(path)[-1]["policy_grad_norm"]) > 0.0


def test_environments_are_shared_by_the_bodies() -> None:
    one = resolve_settings(TrainSettings(bodies=("3d_hopper_3_shin",), algorithm="ppo"))
    many = resolve_settings(TrainSettings(bodies=("3d_cwhh++",), algorithm="ppo"))
    assert one.envs_per_body == 64
    assert many.envs_per_body == 4
    some = resolve_settings(TrainSettings(bodies=("3d_hopper++",), algorithm="ppo"))
    assert some.envs_per_body == 64 // len(some.bodies)
    assert (
        resolve_settings(TrainSettings(bodies=("3d_cwhh++",), algorithm="td3")).envs_per_body == 4
    )
