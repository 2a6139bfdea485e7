"""Policies that are passed on: small, complete, with a card that tells what was measured."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import sgrl
from sgrl.cli.policies import policies_command
from sgrl.morphology import get_body
from sgrl.morphology.digest import physics
from sgrl.training import published, run
from sgrl.training.acting import MirroredPolicy
from sgrl.training.evaluate import evaluate
from sgrl.training.loop import train
from sgrl.training.policy import act_on_one_thread
from sgrl.training.settings import TrainSettings

from .test_ppo import PPO
from .tiny import read_metrics
from .untrained import HOPPER, WALKER

publish = partial(published.publish, allow_uncommitted=True, say=lambda _: None)
"""Whoever tests may have changes that are in no commit."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(replace(PPO, steps=48, runs=tmp_path_factory.mktemp("runs"), name="trained"))


@pytest.fixture(scope="module")
def folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("policies") / "set-small"
    return publish(trained, out, episodes=2, threads=1)


@pytest.fixture
def shipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if it came with the package."""
    for module in (published, run):
        monkeypatch.setattr(module, "SHIPPED", folder.parent)
    return folder


def test_acts_as_the_run_does_and_is_small(trained: Path, shipped: Path) -> None:
    one, other = sgrl.load_policy(trained), sgrl.load_policy("set-small")
    observed, _ = sgrl.make_vec(WALKER, envs_per_body=3, threads=1).reset(seed=0)
    assert np.array_equal(one.act(observed, WALKER), other.act(observed, WALKER))
    assert not list(shipped.rglob("*.pt"))
    assert not list(shipped.rglob("*.npz"))
    text = "".join(path.read_text() for path in shipped.rglob("*.json"))
    assert str(trained.parent) not in text


def test_the_card_reports_every_body_of_the_families(shipped: Path) -> None:
    card = json.loads((shipped / "card.json").read_text())
    assert card["name"] == "set-small"
    assert card["physics"] == physics()
    assert f"(physics {physics()['digest']})" in (shipped / "card.md").read_text()
    assert (card["method"], card["algorithm"], card["steps"]) == ("set", "ppo", 48)
    rows = {(row["body"], row["variant"]): row for row in card["results"]}
    relatives = [name for name in sgrl.body_names() if "hopper" in name or "walker" in name]
    assert {body for body, _ in rows} == set(relatives)
    assert len(rows) == 2 * len(relatives)
    assert [body for body, _ in rows if rows[body, "v1"]["seen"]] == [HOPPER, WALKER] * 2
    (expected,) = evaluate(sgrl.load_policy(shipped), HOPPER, variant="v2", episodes=2, threads=1)
    assert rows[HOPPER, "v2"]["total_reward"] == pytest.approx(expected.mean("total_reward"))
    assert rows[HOPPER, "v2"]["length_se"] == pytest.approx(expected.standard_error("length"))
    # Those with two equal sides, and those of the training, are not tried in the mirror.
    images = {row["body"]: row for row in card["mirror"]}
    assert set(relatives) - set(images) == {
        *(name for name in relatives if "hopper" in name),
        *(WALKER, "3d_walker_3_left_knee_right_knee", "3d_walker_5_foot", "3d_walker_7_full"),
    }
    own = MirroredPolicy(sgrl.load_policy(shipped))
    (expected,) = evaluate(own, "3d_walker_6_right_foot", episodes=2, threads=1)
    found = images["3d_walker_6_right_foot"]["total_reward"]
    assert found == pytest.approx(expected.mean("total_reward"))
    text = (shipped / "card.md").read_text()
    assert text.count("\n| 3d_") == len(relatives) + len(images)
    assert f"| {HOPPER} | yes |" in text
    assert set(card["mirror_errors"]) == set(relatives)
    assert all(0 < error < 10 for error in card["mirror_errors"].values())
    assert {row["lasted"] for row in card["results"]} == {0.0}
    one = rows[HOPPER, "v1"]
    assert one["gained"] == pytest.approx(
        one["speed"] * one["length"] * get_body(HOPPER).dt, abs=0.05
    )


def test_a_card_of_mirror_images(tmp_path: Path) -> None:
    sided = "3d_walker_5_left_knee"
    bodies = (sided, f"{sided}_mirrored")
    trained = train(replace(PPO, bodies=bodies, steps=48, runs=tmp_path))
    assert [body.name for body in sgrl.load_policy(trained).bodies] == list(bodies)
    out = publish(trained, tmp_path / "two", episodes=2, threads=1)
    card = json.loads((out / "card.json").read_text())
    seen = [row["body"] for row in card["results"] if row["seen"]]
    assert seen == [*bodies, *bodies]
    assert len(card["results"]) == 2 * (1 + 8)


def test_start_angles_count_what_is_gained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(PPO, bodies=("3d_hopper_5_full",), steps=48, runs=tmp_path)
    policy = publish(train(settings), tmp_path / "full", episodes=2, threads=1, say=lambda _: None)
    card = json.loads((policy / "card.json").read_text())
    assert [row["angle"] for row in card["facing"]] == [0, 90, 180, 270]
    # An untrained hopper falls where it stands.
    assert all(abs(row["metres"]) < 2.0 for row in card["facing"])
    assert "| body | 0° | 90° | 180° | 270° |" in (policy / "card.md").read_text()


def test_start_of_another_training(shipped: Path, tmp_path: Path) -> None:
    settings = replace(PPO, init_from=Path("set-small"), steps=48, runs=tmp_path, seed=7)
    assert read_metrics(train(settings))


def test_the_card_counts_the_training_that_it_started_from(
    trained: Path, shipped: Path, tmp_path: Path
) -> None:
    first = json.loads((shipped / "card.json").read_text())
    for start in (trained, Path("set-small")):
        again = replace(PPO, init_from=start, steps=96, runs=tmp_path, seed=7, threads=2)
        second = train(again)
        act_on_one_thread()  # two wait for each other on a busy machine
        out = publish(second, tmp_path / start.name, episodes=2, threads=1)
        card = json.loads((out / "card.json").read_text())
        assert card["steps"] == 48 + 96
        own = card["hours"] - first["hours"]
        assert own > 0
        assert card["core_hours"] == pytest.approx(first["core_hours"] + 2 * own)
        assert card["stages"][:-1] == first["stages"]


def test_the_list_and_a_card_on_the_screen(
    shipped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies_command()
    listed = capsys.readouterr().out
    assert "set-small" in listed
    assert "hopper" in listed
    assert "that last" in " ".join(listed.split())
    policies_command("set-small")
    assert capsys.readouterr().out.startswith("# set-small")
    with pytest.raises(ValueError, match="no policy 'nobody' in the package; there are set-small"):
        policies_command("nobody")


def test_is_found_among_what_there_is(shipped: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there are .*set-small"):
        sgrl.load_policy("set-smal")


def test_an_altered_policy_is_not_used(shipped: Path, tmp_path: Path) -> None:
    shutil.copytree(shipped, tmp_path / "copy")
    (weights,) = (tmp_path / "copy").rglob("weights.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    with (
        pytest.warns(UserWarning, match="truncated or altered"),
        pytest.raises(ValueError, match="can be read"),
    ):
        sgrl.load_policy(tmp_path / "copy")


def test_a_training_that_goes_on_may_remove_its_checkpoint(trained: Path, tmp_path: Path) -> None:
    run_folder = tmp_path / "going"
    shutil.copytree(trained, run_folder)

    def remove(_: str) -> None:
        shutil.rmtree(run_folder / "checkpoints", ignore_errors=True)

    out = publish(run_folder, tmp_path / "out", episodes=2, threads=1, say=remove)
    assert sgrl.load_policy(out).checkpoint == 48


def test_the_card_has_every_command_but_no_folders(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    versions = json.loads((folder / "versions.json").read_text())
    versions["processes"] = [
        {"command": "sgrl train --runs '/home/me/my runs' --seed 3", "commit": "abc"},
        {"command": "sgrl train --runs=/home/us --init-from /home/me/far", "commit": "abc"},
        {"command": "sgrl train --resume=/home/me/it --steps 99", "commit": None},
    ]
    (folder / "versions.json").write_text(json.dumps(versions))
    out = publish(folder, tmp_path / "out", episodes=2, threads=1)
    text = (out / "card.md").read_text()
    commands = ("--seed 3", "--init-from far", "--resume it --steps 99")
    assert "".join(f"    sgrl train {one}\n" for one in commands) in text
    assert "| 48 | " in text
    assert "| abc, not recorded |" in text
    assert "/home" not in text


def test_a_run_that_went_on_with_more_threads_counts_each_process(
    trained: Path, tmp_path: Path
) -> None:
    """And one that went on after the checkpoint has no part in it."""
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    (checkpoint,) = (folder / "checkpoints").glob("*/checkpoint.json")
    seconds = json.loads(checkpoint.read_text())["seconds"]
    versions = json.loads((folder / "versions.json").read_text())
    starts = [(1, 0, 0.0), (4, 24, 0.25 * seconds), (9, 48, seconds)]
    versions["processes"] = [
        {"command": f"sgrl train --threads {threads}", "commit": "abc"}
        | {"threads": threads, "steps": steps, "seconds": start}
        for threads, steps, start in starts
    ]
    (folder / "versions.json").write_text(json.dumps(versions))
    card = json.loads((publish(folder, tmp_path / "out", episodes=2) / "card.json").read_text())
    (stage,) = card["stages"]
    assert stage["commands"] == ["sgrl train --threads 1", "sgrl train --threads 4"]
    assert stage["hours"] == pytest.approx(seconds / 3600)
    assert stage["core_hours"] == pytest.approx((0.25 + 4 * 0.75) * seconds / 3600)


def test_code_in_no_commit_is_refused(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    versions = json.loads((folder / "versions.json").read_text())

    def trained_at(commit: str) -> None:
        versions["processes"][0]["commit"] = commit
        (folder / "versions.json").write_text(json.dumps(versions))

    trained_at("abc-dirty")
    monkeypatch.setattr(published, "current_commit", lambda: "abc")
    with pytest.raises(ValueError, match=r"in no commit: run; .*--allow-uncommitted"):
        published.publish(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    trained_at("abc")
    monkeypatch.setattr(published, "current_commit", lambda: "def-dirty")
    with pytest.raises(ValueError, match="in no commit: this code"):
        published.publish(folder, tmp_path / "out")
    monkeypatch.setattr(published, "current_commit", lambda: "def")
    out = published.publish(folder, tmp_path / "out", episodes=2, threads=1)
    assert json.loads((out / "card.json").read_text())["measured_at"] == "def"


def test_a_published_policy_is_neither_resumed_nor_published_again(
    shipped: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"is a published policy.*--init-from set-small"):
        train(TrainSettings(resume=Path("set-small")))
    with pytest.raises(ValueError, match="is published already"):
        publish("set-small", tmp_path / "again")


def test_refuses_a_folder_that_exists(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="exists"):
        publish(trained, tmp_path)
