"""The paper's numbers are of bodies, methods and conditions that the experiments have."""

from __future__ import annotations

import pytest

from sgrl.experiments import paper
from sgrl.experiments.budgets import PAPER
from sgrl.experiments.catalogue import EXPERIMENTS
from sgrl.models.methods import method_title

from .fabricated import request


@pytest.mark.parametrize(
    ("name", "count"), [("single-task", 6), ("zero-shot", 42), ("orientation", 20), ("bias", 12)]
)
def test_every_number_has_its_trial(name: str, count: int) -> None:
    asked = request(name, PAPER)
    tried = {
        (job.settings.method, job.settings.bodies[0], one.body, one.condition)
        for job in asked.jobs()
        for one in asked.evaluations(job)
    }
    assert len(EXPERIMENTS[name].numbers) == count
    assert set(EXPERIMENTS[name].numbers) <= tried


def test_some_numbers() -> None:
    walker, cheetah = "3d_walker_6_right_foot", "3d_cheetah_12_tail_leftffoot"
    assert paper.ZERO_SHOT["smp", "3d_walker++", walker, ""] == (143.4, 50.7)
    assert paper.ZERO_SHOT["swat+hn", "3d_cwhh++", cheetah, ""] == (2517.3, 2113.9)
    full = paper.CHEETAH
    assert paper.ORIENTATION["swat", full, full, "180° at 500k"] == (120.5, 178.5)
    assert paper.ORIENTATION["set", full, full, "random"] == (4902.8, 62.9)
    assert paper.BIAS["monolithic+hn", full, full, "180°"] == (-3.2, 0.7)


def test_titles_are_of_methods() -> None:
    assert method_title("set-g") == "SET\\g"
    assert method_title("mine") == "mine"
