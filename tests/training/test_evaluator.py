"""Evaluation while training: it changes nothing but its columns, and the best is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sgrl.morphology import get_body
from sgrl.training import evaluator
from sgrl.training.checkpoint import list_checkpoints, read_checkpoint, read_metadata
from sgrl.training.evaluate import MAX_SEED, evaluate
from sgrl.training.evaluator import score
from sgrl.training.loop import train
from sgrl.training.place import split_place
from sgrl.training.policy import load_policy
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings

from .test_ppo import PPO
from .tiny import TINY, assert_same_run, assert_same_weights, read_metrics

Make = Callable[..., TrainSettings]
EVALUATED = {"eval_every": 100, "eval_episodes": 2, "steps": 400}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that was evaluated four times."""
    runs = tmp_path_factory.mktemp("runs")
    return train(replace(TINY, **EVALUATED, keep=9, runs=runs, name="run"))


def without_evaluation(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{k: v for k, v in row.items() if not k.startswith("eval/")} for row in rows]


def test_a_run_goes_on_as_if_it_had_not_been_evaluated(evaluated: Path, tmp_path: Path) -> None:
    plain = train(replace(TINY, steps=400, runs=tmp_path, eval_every=0))
    assert without_evaluation(read_metrics(evaluated)) == read_metrics(plain)
    assert_same_weights(evaluated, plain)


def test_so_does_one_of_ppo(tmp_path: Path) -> None:
    settings = replace(PPO, steps=240, runs=tmp_path)
    plain = train(settings)
    other = train(replace(settings, eval_every=96, eval_episodes=1))
    assert without_evaluation(read_metrics(other)) == read_metrics(plain)
    assert_same_weights(other, plain)


def test_columns(evaluated: Path) -> None:
    rows = read_metrics(evaluated)
    told = [int(row["steps"]) for row in rows if row["eval/return"]]
    assert told == [120, 200, 320, 400], "rows come every 40 steps"
    for row in rows:
        if row["eval/return"]:
            returns = [float(row[f"eval/{name}"]) for name in TINY.bodies]
            assert float(row["eval/return"]) == pytest.approx(np.mean(returns))
    last = Run(evaluated).metrics()[-1]
    assert last["wall/eval"] is not None
    assert last["wall/eval"] > 0
    policy = load_policy(f"{evaluated}@400")
    results = evaluate(policy, policy.bodies, episodes=2, seed=MAX_SEED, threads=1)
    for result in results:
        assert rows[-1][f"eval/{result.body}"] == repr(result.mean("total_reward"))


def test_the_best_is_kept(evaluated: Path) -> None:
    (folder,) = list_checkpoints(evaluated / "best")
    bodies = [get_body(name) for name in TINY.bodies]
    scores = {
        int(row["steps"]) // 100 * 100: score(
            bodies, [float(row[f"eval/{b}"]) for b in TINY.bodies]
        )
        for row in read_metrics(evaluated)
        if row["eval/return"]
    }
    best = max(scores, key=lambda steps: scores[steps])
    assert int(folder.name) == best
    assert read_metadata(folder)["score"] == pytest.approx(scores[best])
    assert {path.name for path in folder.iterdir()} == {"weights.safetensors", "checkpoint.json"}
    with pytest.raises(ValueError, match="no training to go on from"):
        read_checkpoint(folder)


def test_where_a_policy_is_found(evaluated: Path) -> None:
    (folder,) = list_checkpoints(evaluated / "best")
    for where in (evaluated, f"{evaluated}@best"):
        policy = load_policy(where)
        assert (policy.checkpoint, policy.is_best) == (int(folder.name), True)
    assert load_policy(f"{evaluated}@300").checkpoint == 300
    assert load_policy(evaluated, 200).checkpoint == 200
    with pytest.raises(FileNotFoundError, match="no checkpoint 5; there are 100, 200"):
        load_policy(f"{evaluated}@5")
    with pytest.raises(ValueError, match="comes best or a number of steps, not 'last'"):
        load_policy(f"{evaluated}@last")
    assert split_place("a@b/run@7") == (Path("a@b/run"), 7)
    assert split_place("run@2e6") == (Path("run"), 2_000_000)


def test_without_evaluations_it_is_the_newest(evaluated: Path, tiny: Make) -> None:
    run = train(tiny(steps=120, utd_ratio=0.0))
    assert not load_policy(run).is_best
    with pytest.raises(FileNotFoundError, match=r"no best checkpoint: .* --eval-every"):
        load_policy(f"{run}@best")
    started = train(tiny(steps=40, utd_ratio=0.0, init_from=Path(f"{evaluated}@200")))
    assert "the checkpoint at 200 steps" in (started / "log.txt").read_text()
    started = train(tiny(steps=40, utd_ratio=0.0, init_from=evaluated))
    assert "its best checkpoint at" in (started / "log.txt").read_text()
    with pytest.raises(ValueError, match="a run goes on from its newest checkpoint"):
        train(TrainSettings(resume=Path(f"{evaluated}@best")))


def test_it_resumes_to_the_bit(
    evaluated: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an evaluation that no row has told yet lies in the checkpoint."""
    settings = tiny(**EVALUATED, keep=9, name="again", checkpoint_every=20)
    calls = []

    def mortal(*arguments: object) -> float:
        calls.append(0)
        if len(calls) == 3:
            raise ZeroDivisionError
        return score(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(evaluator, "score", mortal)
        with pytest.raises(ZeroDivisionError):
            train(settings)
    run = settings.runs / "again"
    assert int(list_checkpoints(run / "checkpoints")[-1].name) == 280
    train(TrainSettings(resume=run))
    assert_same_run(run, evaluated)
    assert [p.name for p in list_checkpoints(run / "best")] == [
        p.name for p in list_checkpoints(evaluated / "best")
    ]
