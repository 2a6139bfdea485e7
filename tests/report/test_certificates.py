"""The certificates in a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from sgrl.envs.observation import FEATURES
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.batch import LimbBatch
from sgrl.morphology import get_body
from sgrl.report.certificates import certificate_table
from sgrl.report.groups import make_groups
from sgrl.report.runs import read_runs
from sgrl.training.policy import load_policy
from tests.report.cells import rows_of
from tests.report.made import HOPPERS, made_run, write_rows
from tests.training.edit import edit_settings
from tests.training.untrained import WALKER as SMALLEST
from tests.training.untrained import untrained_run


def test_the_certificate_is_of_fresh_and_of_learned_weights(tmp_path: Path) -> None:
    trained, _ = untrained_run(tmp_path / "a", steps=(100, 200))
    write_rows(trained, {HOPPERS[0]: 1.0}, rows=1)
    lost = made_run(tmp_path / "b", {HOPPERS[0]: 1.0}, method="swat")
    made = certificate_table(make_groups(read_runs([trained.path, lost.path])))
    _, *rows = rows_of(made)
    marks = {tuple(row[:3]): "".join(cell[0] for cell in row[3:]) for row in rows}
    assert marks == {
        ("set", "fresh, fast", SMALLEST): "✓✓✓✗✗",
        ("set", "run, 200 steps", SMALLEST): "✓✓✓✗✗",
        ("swat", "fresh, fast", HOPPERS[0]): "✓✗✗✗✗",
    }
    assert made.count('class="kept"') == 3 + 3 + 1
    assert f"what {lost.path.name} has learned: {lost.path} has no checkpoint yet" in made


def test_a_method_that_is_not_here_is_not_measured(tmp_path: Path) -> None:
    run = made_run(tmp_path, {HOPPERS[0]: 1.0})
    edit_settings(run, method="gone:Away", network=None)  # as of a method of one's own
    made = certificate_table(make_groups(read_runs([run.path])))
    assert "Not measured is the method gone:Away: " in made
    assert "add --trust gone" in made


def test_what_is_measured_is_what_acts(tmp_path: Path) -> None:
    """A policy as a function of batches, normalizer included, does what it does on observations."""
    policy = load_policy(untrained_run(tmp_path)[0].path)
    body = get_body(HOPPERS[0])
    observed, _ = LocomotionVectorEnv(body, 5).reset(seed=1)
    plain = policy.act(observed, body)
    policy.normalizer.update(3.0 * torch.from_numpy(observed).view(-1, FEATURES) + 1.0)
    batch = LimbBatch.from_flat(torch.from_numpy(observed).double(), body)
    acted = batch.layout.actions_to_rows(policy.to(torch.float64).actions(batch)).numpy()
    assert np.abs(acted - policy.act(observed, body)).max() < 1e-5
    assert np.abs(acted - plain).max() > 1e-3, "the normalizer changes what is seen"
