"""What is recorded of a trial, against episodes of the single environment."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import sgrl
from sgrl.envs.observation import FEATURES, HEIGHT
from sgrl.experiments.budgets import LAPTOP, SMOKE
from sgrl.experiments.experiment import Evaluation
from sgrl.experiments.runner import Job, make_job
from sgrl.experiments.trials import SeriesRecorder, biased, nearest_checkpoint, trial_name
from sgrl.models.canonical import Canonicalized
from sgrl.models.methods import make_actor
from sgrl.models.normalizer import Normalizer
from sgrl.morphology import get_body
from sgrl.training.acting import RandomPolicy
from sgrl.training.checkpoint import CorruptCheckpointError
from sgrl.training.evaluate import evaluate, evaluation_seeds
from sgrl.training.policy import TrainedPolicy
from sgrl.training.settings import TrainSettings

HOPPER = "3d_hopper_3_shin"


class Push:
    """The same whatever is observed, so that each episode can be run by itself; it falls soon."""

    def act(self, obs: np.ndarray, body: object, /) -> np.ndarray:
        return np.ones((len(obs), get_body(HOPPER).action_dim), np.float32)


def test_a_series_is_the_mean_of_the_episodes() -> None:
    steps, episodes = 150, 3
    recorder = SeriesRecorder(episodes, steps)
    (result,) = evaluate(
        Push(),
        HOPPER,
        variant="v2",
        episodes=episodes,
        max_episode_steps=steps,
        threads=1,
        watch=recorder,
    )
    series = recorder.series()
    assert series.step.tolist() == list(range(1, steps + 1))

    reward, distance = np.zeros((2, episodes, steps))
    height = np.full((episodes, steps), np.nan)
    for number, seed in enumerate(evaluation_seeds(0, episodes)):
        env = sgrl.make_env(HOPPER, variant="v2", max_episode_steps=steps)
        observation, _ = env.reset(seed=seed)
        for step in range(steps):
            height[number, step] = observation.reshape(-1, FEATURES)[:, HEIGHT].mean()
            observation, earned, terminated, truncated, info = env.step(np.ones(6, np.float32))
            reward[number, step:] += float(earned)
            distance[number, step:] = info["distance"]
            if terminated or truncated:
                break
    assert np.isnan(height).any(), "an episode has ended before the last step"
    assert series.reward == pytest.approx(reward.mean(axis=0))
    assert series.distance == pytest.approx(distance.mean(axis=0))
    running = np.isfinite(height).mean(axis=0)
    assert series.running == pytest.approx(running)
    goes_on = running > 0
    assert series.height[goes_on] == pytest.approx(np.nanmean(height[:, goes_on], axis=0), abs=1e-6)
    assert np.isnan(series.height[~goes_on]).all()
    assert series.reward[-1] == pytest.approx(result.mean("total_reward"))
    assert series.distance[-1] == pytest.approx(result.mean("distance"))


def test_a_long_series_has_a_hundred_points() -> None:
    recorder = SeriesRecorder(2, 1000)
    evaluate(RandomPolicy(), HOPPER, episodes=2, threads=1, watch=recorder)
    assert recorder.series().step.tolist() == list(range(10, 1001, 10))


@pytest.mark.parametrize(("method", "changes"), [("swat+hn", True), ("swat", False)])
def test_only_a_heading_can_be_biased(method: str, changes: bool) -> None:
    body = get_body(HOPPER)
    settings = TrainSettings(bodies=(HOPPER,), method=method, algorithm="td3")
    policy = TrainedPolicy(make_actor(method), Normalizer(), settings, Path("run"), 0)
    observation, _ = sgrl.make_env(body).reset(seed=0)
    other = biased(policy, math.pi)
    difference = np.abs(other.act(observation, body) - policy.act(observation, body)).max()
    assert (difference > 1e-6) == changes
    assert (other is policy) is not changes
    assert biased(policy, 0.0) is policy
    frames = [one.bias for one in other.actor.modules() if isinstance(one, Canonicalized)]
    assert frames == ([math.pi] if changes else [])


def with_checkpoint(job: Job, steps: int, weights: str) -> Path:
    folder = job.folder / "checkpoints" / f"{steps:010d}"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"steps": steps, "seconds": 1.0, "sha256": {"weights.safetensors": weights}}
    (folder / "checkpoint.json").write_text(json.dumps(metadata))
    return folder


def test_a_trial_is_of_these_weights(tmp_path: Path) -> None:
    """A run that was trained again, to as many steps, is tried again."""
    job, evaluation = (
        make_job(TrainSettings(bodies=(HOPPER,), algorithm="td3"), "", tmp_path),
        Evaluation(HOPPER),
    )
    names = []
    for weights in ("one", "other", "one"):
        folder = with_checkpoint(job, 512, weights)
        names.append(trial_name(job, evaluation, SMOKE, 512))
    assert names[0] == names[2] != names[1]
    assert trial_name(job, evaluation, LAPTOP, 512) != names[0]
    assert trial_name(job, Evaluation(HOPPER, yaw=1.0), SMOKE, 512) != names[0]
    (folder / "checkpoint.json").write_text("")
    with pytest.raises(CorruptCheckpointError):
        trial_name(job, evaluation, SMOKE, 512)


def test_the_checkpoint_of_a_moment(tmp_path: Path) -> None:
    job = make_job(TrainSettings(bodies=(HOPPER,), algorithm="td3"), "", tmp_path)
    with pytest.raises(FileNotFoundError, match="has to be trained first"):
        nearest_checkpoint(job, None)
    for steps in (525_000, 1_000_000):
        with_checkpoint(job, steps, "")
    assert nearest_checkpoint(job, None) == 1_000_000
    with pytest.raises(ValueError, match="no checkpoint at 500,000 steps, the nearest is at 525"):
        nearest_checkpoint(job, 500_000)
    with_checkpoint(job, 500_004, "")
    assert nearest_checkpoint(job, 500_000) == 500_004
