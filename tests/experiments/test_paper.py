"""The paper's numbers are of bodies, methods and conditions that the experiments have."""

from __future__ import annotations

import pytest

from sgrl.experiments import paper
from sgrl.experiments.budgets import PAPER
from sgrl.experiments.catalogue import EXPERIMENTS
from sgrl.models.methods import method_title
from sgrl.morphology import get_collection

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


def test_what_a_policy_is_to_be_compared_with() -> None:
    walkers, all_bodies = (get_collection(name).train for name in ("3d_walker++", "3d_cwhh++"))
    held_out = "3d_walker_6_right_foot"
    assert paper.paper_return("set", walkers, held_out) == (431.3, 146.2)
    images = [f"{name}_mirrored" for name in walkers[:2]]
    assert paper.paper_return("set", [*walkers, *images], held_out) == (431.3, 146.2)
    assert paper.paper_return("set", all_bodies, held_out) == (243.7, 32.3)
    assert paper.paper_return("set", [paper.CHEETAH], paper.CHEETAH) == (14987.9, 710.7)
    # Nothing else of the paper is the same.
    assert paper.paper_return("set", walkers[:3], held_out) is None
    assert paper.paper_return("ppo", walkers, held_out) is None
    assert paper.paper_return("set", walkers, walkers[0]) is None
    assert paper.paper_return("set", all_bodies, paper.CHEETAH) is None


def test_titles_are_of_methods() -> None:
    assert method_title("set-g") == "SET\\g"
    assert method_title("mine") == "mine"
