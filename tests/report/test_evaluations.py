"""What the evaluations of runs give in a report."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sgrl.report.evaluations import evaluations_table
from sgrl.report.groups import make_groups
from sgrl.report.runs import RunRecord, read_runs
from sgrl.training.references import reference_return
from sgrl.training.results import BodyResult, Episode, write_results
from tests.report.cells import rows_of
from tests.report.made import HOPPERS, made_run


def evaluate(record: RunRecord, number: int, *returns: float, policy: str = "set") -> None:
    episodes = tuple(
        Episode(i, total, 10, 1.0, 0, 5.0, i == 0, False, 2.0) for i, total in enumerate(returns)
    )
    write_results(
        [BodyResult(policy, HOPPERS[1], "v1", episodes)],
        record.run.path / "evaluations" / f"{number:03d}",
        about={"method": "set", "trained_on": record.settings.bodies, "yaw": math.pi / 2},
    )


def test_evaluations_are_the_newest_of_each_seed(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, {HOPPERS[0]: 1.0}, seed=seed).path for seed in (0, 1)]
    (group,) = make_groups(read_runs(runs))
    assert evaluations_table([group]) is None
    evaluate(group.runs[0], 1, 900.0, 900.0)
    evaluate(group.runs[0], 2, 10.0, 20.0)
    titles, row = rows_of(evaluations_table([group]) or "")
    assert dict(zip(titles, row, strict=True)) | {"seeds": "1", "return": "15.0 ± 5.00"} == dict(
        zip(titles, row, strict=True)
    ), "of one seed the error is over episodes"
    evaluate(group.runs[1], 1, 17.0)
    titles, row = rows_of(evaluations_table([group]) or "")
    found = dict(zip(titles, row, strict=True))
    assert found == {
        "method": "set",
        "trained on": HOPPERS[0],
        "body": HOPPERS[1],
        "seen": "no",
        "task": "v1",
        "start": "90°",
        "seeds": "2",
        "episodes": "3",
        "return": "16.0 ± 1.00",
        "length": "10.0 ± 0.00",
        "speed (m/s)": "1.00 ± 0.00",
        "gained (m)": "2.00 ± 0.00",
        "targets": "0.00 ± 0.00",
        "lasts": "25%",
        "random": f"{reference_return('random', [HOPPERS[1]], 'v1'):,.1f}",
        "specialist": f"{reference_return('specialist', [HOPPERS[1]], 'v1'):,.1f}",
    }


def test_an_evaluation_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    run = made_run(tmp_path, {HOPPERS[0]: 1.0})
    summary = run.path / "evaluations" / "001" / "summary.json"
    summary.parent.mkdir(parents=True)
    summary.write_text(json.dumps({"results": []}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"summary\.json is not a summary of an evaluation"):
        evaluations_table(make_groups(read_runs([run.path])))
