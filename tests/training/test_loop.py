"""The loop: what it stores, counts, updates and reports."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sgrl.algorithms.replay import Replay, Transitions
from sgrl.algorithms.td3 import TD3
from sgrl.algorithms.td3_config import TD3Config
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.methods import METHODS
from sgrl.models.swat import SWATConfig
from sgrl.training.checkpoint import CheckpointWriter, list_checkpoints, read_metadata
from sgrl.training.loop import Training, train
from sgrl.training.run import Run, create_run
from sgrl.training.settings import TrainSettings, is_over, resolve_settings

from .test_ppo import PPO
from .tiny import TINY, assert_same_run, assert_same_weights, read_metrics

Make = Callable[..., TrainSettings]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(replace(TINY, runs=tmp_path_factory.mktemp("runs"), name="trained"))


def test_what_a_run_leaves(trained: Path) -> None:
    rows = read_metrics(trained)
    assert [int(row["steps"]) for row in rows] == list(range(40, 401, 40))
    assert rows[-1]["updates"] == "30"
    assert [rows[1]["q_mean"], rows[1]["updates"]] == ["", "0"], "an update during the warm-up"
    assert all(
        rows[-1][name] for name in ("critic_loss", "actor_loss", "q_mean", "critic_grad_norm")
    )
    assert {"return", "return/3d_hopper_3_shin", "length"} <= rows[0].keys()
    kept = [int(path.name) for path in list_checkpoints(trained / "checkpoints")]
    assert kept == [200, 300, 400]
    assert list((trained / "tensorboard").iterdir())
    assert "finished" in (trained / "log.txt").read_text()
    header = Run(trained).metrics_file.read_text().splitlines()[0]
    assert header.endswith(
        "wall/seconds,wall/steps_per_second,wall/sim,wall/act,wall/sample,wall/update,wall/eval,wall/other"
    )


def test_seeds(tiny: Make, trained: Path) -> None:
    assert_same_run(train(tiny(deterministic=True)), trained)
    other = train(tiny(seed=1))
    assert read_metrics(other)[-1]["q_mean"] != read_metrics(trained)[-1]["q_mean"]


def test_transitions_are_what_happened(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ended episode's transition leads to its true last observation."""
    stepped: list[Any] = []
    stored: list[Any] = []
    step, add = LocomotionVectorEnv.step, Replay.add

    def noted_step(self: LocomotionVectorEnv, actions: Any) -> Any:
        found = step(self, actions)
        stepped.append((actions.copy(), *found))
        return found

    def noted_add(self: Replay, *arrays: Any) -> None:
        stored.append([np.array(array) for array in arrays])
        add(self, *arrays)

    monkeypatch.setattr(LocomotionVectorEnv, "step", noted_step)
    monkeypatch.setattr(Replay, "add", noted_add)
    train(tiny(steps=800, utd_ratio=0.0))
    ends = 0
    for index, (actions, following, rewards, terminated, truncated, infos) in enumerate(stepped):
        body, before, taken, reward, after, end = stored[index]
        assert body.tolist() == [0, 0, 1, 1]
        if index:
            np.testing.assert_array_equal(before, stepped[index - 1][1])
        np.testing.assert_array_equal(taken, actions)
        np.testing.assert_array_equal(reward, rewards)
        np.testing.assert_array_equal(end, terminated)
        done = terminated | truncated
        np.testing.assert_array_equal(after[~done], following[~done])
        if done.any():
            ends += 1
            np.testing.assert_array_equal(after[done], infos["final_obs"][done])
            assert not np.array_equal(after[done], following[done])
    assert ends > 3


def test_a_time_out_does_not_terminate(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[Any] = []
    make, add = LocomotionVectorEnv.__init__, Replay.add

    def short_episodes(self: LocomotionVectorEnv, *args: Any, **named: Any) -> None:
        make(self, *args, **named, max_episode_steps=3)

    def noted_add(self: Replay, *arrays: Any) -> None:
        flags.append(arrays[-1].copy())
        add(self, *arrays)

    monkeypatch.setattr(LocomotionVectorEnv, "__init__", short_episodes)
    monkeypatch.setattr(Replay, "add", noted_add)
    run = train(tiny(utd_ratio=0.0))
    assert not np.any(flags)
    assert read_metrics(run)[-1]["length"] == "3.0"
    assert int(read_metrics(run)[-1]["episodes"]) == 4 * (100 // 3)


def test_a_time_out_leads_to_the_true_last_observation(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored is what the same actions lead to where no episode is cut off."""
    make = LocomotionVectorEnv.__init__

    def short_episodes(self: LocomotionVectorEnv, *args: Any, **named: Any) -> None:
        make(self, *args, **named, max_episode_steps=3)

    settings = resolve_settings(tiny())
    with monkeypatch.context() as patch:
        patch.setattr(LocomotionVectorEnv, "__init__", short_episodes)
        training = Training(settings, create_run(settings))
    training.prepare(lambda _: None)
    learner, steps = training.learner, []
    assert isinstance(learner, TD3)
    for _ in range(3):
        steps.append(training.collector.step(learner, training.clock))
        learner.store(steps[-1])
    assert steps[-1].done.all()
    endless = LocomotionVectorEnv(settings.morphologies(), 2, threads=1)
    endless.reset(seed=settings.environment_seed())
    for step in steps:
        last, _, _, truncated, _ = endless.step(step.actions)
    assert not truncated.any()
    for row, body in enumerate(endless.body_index):
        batch = learner.replay.sample(200, np.random.default_rng(0), body=int(body))
        numbers = batch.next_obs.shape[1]
        (found,) = np.nonzero((batch.next_obs.numpy() == last[row, :numbers]).all(axis=1))
        assert len(found), "no transition leads there"
        assert not batch.terminated[found].any()
    training.collector.close()
    training.metrics.close()


@pytest.mark.parametrize("algorithm", ["td3", "ppo"])
def test_a_checkpoint_does_not_change_while_training_goes_on(tiny: Make, algorithm: str) -> None:
    """It is packed and written in a thread of its own."""
    settings = tiny(learning_starts=8, utd_ratio=1.0)
    if algorithm == "ppo":
        settings = replace(PPO, runs=settings.runs)
    settings = resolve_settings(settings)
    training = Training(settings, create_run(settings))
    training.prepare(lambda _: None)

    def go_on() -> None:
        before = training.learner.updates
        while training.learner.updates < before + 4:
            step = training.collector.step(training.learner, training.clock)
            training.learner.store(step)
            training.episodes.step(step.rewards, step.done)
            training.learner.update(training.losses.add, training.clock, lambda: False)

    go_on()
    checkpoint = training.checkpoint()
    packed = checkpoint.pack()
    go_on()
    assert checkpoint.pack() == packed
    training.collector.close()
    training.metrics.close()


@pytest.mark.parametrize("batches", ["mixed", "in_turn"])
def test_batches(tiny: Make, monkeypatch: pytest.MonkeyPatch, batches: str) -> None:
    seen: list[set[int]] = []
    gradient_step = TD3.gradient_step

    def noted(self: TD3, batch: Transitions) -> dict[str, float]:
        seen.append(set(batch.body_index.tolist()))
        return gradient_step(self, batch)

    monkeypatch.setattr(TD3, "gradient_step", noted)
    train(tiny(batches=batches))
    assert len(seen) == 30
    if batches == "in_turn":
        # Two each, so that every second update, which is the actor's too, is of every body.
        assert seen == ([{0}, {0}, {1}, {1}] * 8)[:30]
    else:
        assert sum(len(bodies) == 2 for bodies in seen) > 25


def test_one_update_per_transition_by_default(tiny: Make) -> None:
    run = train(tiny(utd_ratio=TD3Config().utd_ratio, steps=140))
    assert TD3Config().utd_ratio == 1.0
    assert read_metrics(run)[-1]["updates"] == "20"  # at 120 steps, 20 after the warm-up


def test_starting_from_another_run(tiny: Make, trained: Path) -> None:
    """Other bodies, another variant; weights alone are taken over."""
    settings = tiny(
        bodies=("3d_hopper_4_lower_shin",), variant="v2", init_from=trained, utd_ratio=0.0
    )
    run = train(settings)
    assert_same_weights(run, trained)
    assert Run(run).settings().init_from == trained.resolve()
    assert "starting from the weights of" in (run / "log.txt").read_text()
    # The command that it was started with also resumes it, wherever it names its source from.
    again = Path(os.path.relpath(trained))
    train(TrainSettings(resume=run, init_from=again, steps=440))
    assert read_metrics(run)[-1]["steps"] == "440"


def test_a_network_of_one_body_starts_from_one_of_a_body_with_more_limbs(tiny: Make) -> None:
    one = {"method": "monolithic+tn", "network": None, "utd_ratio": 0.0, "steps": 120}
    full = train(tiny(bodies=("3d_hopper_5_full",), **one))
    run = train(tiny(bodies=("3d_hopper_3_shin",), init_from=full, **one))
    assert "starting from the weights of" in (run / "log.txt").read_text()
    with pytest.raises(ValueError, match=r"3d_hopper_3_shin has no .*, which 3d_hopper_5_full has"):
        train(tiny(bodies=("3d_hopper_5_full",), init_from=run, **one))


def test_a_preset_that_was_changed_since(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on, and others start from it, with the sizes that it was made with."""
    settings = tiny(method="swat", network=None, utd_ratio=0.0, steps=120)
    run = train(settings)
    other = replace(METHODS["swat"], fast=SWATConfig(layers=1, embedding=16))
    monkeypatch.setitem(METHODS, "swat", other)
    train(TrainSettings(resume=run, method="swat", preset="fast", steps=160))
    started = train(replace(settings, init_from=run))
    assert Run(started).settings().network == Run(run).settings().network != other.fast
    assert_same_weights(started, run)


def test_a_finished_run_that_is_resumed(trained: Path) -> None:
    before = read_metrics(trained)
    train(TrainSettings(resume=trained))
    assert read_metrics(trained) == before


def test_time_that_is_over_while_a_checkpoint_is_written(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left on the disk knows that training is over."""
    write = CheckpointWriter.write

    def slowly(self: CheckpointWriter, *arguments: Any) -> None:
        write(self, *arguments)
        time.sleep(1.0)

    monkeypatch.setattr(CheckpointWriter, "write", slowly)
    path = train(tiny(steps=10**9, minutes=0.01, checkpoint_every=4, buffer_size=1000))
    newest = read_metadata(list_checkpoints(Run(path).checkpoints)[-1])
    assert newest["seconds"] >= 0.6
    assert is_over(Run(path).settings(), newest["steps"], newest["seconds"])


def test_ends_when_its_time_is_over(tiny: Make) -> None:
    path = train(tiny(steps=10**9, minutes=0.02, name="timed"))
    (*_, last) = list_checkpoints(Run(path).checkpoints)
    reached = int(last.name)
    assert 0 < reached < 10**6
    # More time lets it go on.
    train(TrainSettings(resume=path, minutes=0.06))
    further = int(list_checkpoints(Run(path).checkpoints)[-1].name)
    assert further > reached
    # Who asks for steps is not stopped by the time.
    train(TrainSettings(resume=path, steps=further + 40))
    assert int(list_checkpoints(Run(path).checkpoints)[-1].name) == further + 40
    assert len(Run(path).versions()["processes"]) == 3


def test_a_run_without_a_checkpoint_survives_a_failed_resume(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(resolve_settings(tiny(name="young")))

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Training, "prepare", fail)
    with pytest.raises(MemoryError):
        train(TrainSettings(resume=run.path))
    assert run.settings_file.exists()
