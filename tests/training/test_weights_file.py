"""A policy from one file of weights, with its card beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sgrl
from sgrl.plugins import TRUST
from sgrl.training.published import publish
from sgrl.training.run import SHIPPED

from .untrained import HOPPER, untrained_run

FILE, CARD = "weights.safetensors", "card.json"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run, _ = untrained_run(tmp_path_factory.mktemp("runs"))
    out = run.path.parent / "small"
    return publish(run.path, out, episodes=2, threads=1, allow_uncommitted=True, say=lambda _: None)


@pytest.fixture
def alone(published: Path, tmp_path: Path) -> Path:
    """A folder with the weights and the card, and nothing else."""
    (weights,) = published.rglob(FILE)
    shutil.copy(weights, tmp_path)
    shutil.copy(published / CARD, tmp_path)
    return tmp_path


def assert_acts_alike(first: str | Path, second: str | Path) -> None:
    obs = sgrl.make_vec(HOPPER, 3).reset(seed=0)[0]
    np.testing.assert_array_equal(
        sgrl.load_policy(first).act(obs, HOPPER), sgrl.load_policy(second).act(obs, HOPPER)
    )


def test_weights_and_a_card_are_a_policy(published: Path, alone: Path) -> None:
    assert_acts_alike(alone / FILE, published)
    policy = sgrl.load_policy(alone / FILE)
    assert policy.bodies == sgrl.load_policy(published).bodies
    (alone / FILE).rename(alone / "mine.safetensors")
    assert_acts_alike(str(alone / "mine.safetensors"), published)


def test_the_weights_of_a_checkpoint(published: Path) -> None:
    (weights,) = published.rglob(FILE)
    assert_acts_alike(weights, published)
    assert sgrl.load_policy(weights).run == published.absolute()


@pytest.mark.parametrize("name", ["set-hopper", "set-generalist"])
def test_cards_of_earlier_versions_will_do(tmp_path: Path, name: str) -> None:
    (weights,) = (SHIPPED / name).rglob(FILE)
    shutil.copy(weights, tmp_path)
    shutil.copy(SHIPPED / name / CARD, tmp_path)
    assert_acts_alike(tmp_path / FILE, name)


def change(key: str, value: Any) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        card = json.loads((folder / CARD).read_text())
        (folder / CARD).write_text(json.dumps(card | {key: value}))

    return do


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: (folder / CARD).unlink(), "has no card beside it"),
        (lambda folder: (folder / FILE).unlink(), "No such file"),
        (lambda folder: (folder / CARD).write_text("[1]"), "card.json holds no object"),
        (lambda folder: (folder / FILE).write_bytes(b"1234"), "card.json is of other weights"),
        (change("bodies", [3]), "does not say method, preset, bodies"),
        (change("bodies", ["3d_hoper"]), "3d_hoper"),
        (change("preset", "huge"), "unknown preset 'huge'"),
        (change("method", "swat"), "weights.safetensors: "),
        (change("weights_sha256", "0"), "is truncated or altered"),
    ],
)
def test_what_is_no_policy_is_a_line(
    alone: Path, harm: Callable[[Path], None], reason: str
) -> None:
    harm(alone)
    with pytest.raises((ValueError, OSError), match=reason) as error:
        sgrl.load_policy(alone / FILE)
    assert "\n" not in str(error.value)


def test_a_card_runs_no_code(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TRUST, "_modules", {})
    monkeypatch.chdir(alone)
    (alone / "strange.py").write_text("raise SystemExit('imported')")
    change("method", "strange:Net")(alone)
    with pytest.raises(ValueError, match="which you did not ask for"):
        sgrl.load_policy(FILE)
    with pytest.raises(ValueError, match="nothing in a folder of runs is imported"):
        sgrl.load_policy(FILE, trust=("strange",))
