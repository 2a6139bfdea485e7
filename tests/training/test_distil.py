"""`sgrl distil`, from runs to a policy: sources are copied, kept to, and counted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sgrl.algorithms.distil_config import DistilConfig
from sgrl.models.set import SETConfig
from sgrl.training.distil_command import parse_distillation
from sgrl.training.history import history_of
from sgrl.training.loop import train
from sgrl.training.policy import load_policy, read_policy_weights
from sgrl.training.published import known_by_mirror, publish
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings

from .tiny import TINY, assert_same_run

NETWORK = SETConfig(layers=1, embedding=8, hidden=8, matrix=6, matrix_hidden=8)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(replace(TINY, runs=tmp_path_factory.mktemp("runs"), name="teacher"))


def distillation(teacher: Path, runs: Path, *options: str) -> TrainSettings:
    settings = parse_distillation(
        [
            str(teacher),
            *("--preset", "fast", "--runs", str(runs), "--name", "student", "--threads", "1"),
            *("--steps", "400", "--log-every", "40", "--checkpoint-every", "100"),
            *("--envs-per-body", "2", "--distil.batch-size", "8", "--distil.compile", "no"),
            *("--distil.learning-starts", "40", *options),
        ]
    )
    return replace(settings, network=NETWORK)


def test_one_policy_of_many(teacher: Path, tmp_path: Path) -> None:
    settings = distillation(teacher, tmp_path)
    assert settings.algorithm == "distil"
    assert settings.bodies == TINY.bodies
    run = Run(train(settings))
    copied = run.sources / "00_teacher"
    assert {path.name for path in copied.iterdir()} >= {"settings.json", "history.json"}
    assert not any(n.startswith("critic.") for n in read_policy_weights(Run(copied))[1])
    rows = run.metrics()
    assert rows[-1]["student_share"] == 1.0
    assert rows[-1]["imitation_loss"] is not None
    policy = load_policy(run.path)
    assert [body.name for body in policy.bodies] == list(TINY.bodies)


def test_what_it_took_counts_the_teachers(teacher: Path, tmp_path: Path) -> None:
    run = Run(train(distillation(teacher, tmp_path)))
    folder, _ = read_policy_weights(run)
    history, source = (
        history_of(run, folder),
        json.loads((run.sources / "00_teacher" / "history.json").read_text()),
    )
    assert source["steps"] == 400
    assert history["steps"] == source["steps"] + int(folder.name)
    assert history["core_hours"] > source["core_hours"] > 0


def test_teachers_that_were_published_keep_their_stages(teacher: Path, tmp_path: Path) -> None:
    """And one that teaches twice, by itself and as a published policy, counts once."""
    out = publish(
        teacher,
        tmp_path / "passed-on",
        episodes=2,
        threads=1,
        allow_uncommitted=True,
        say=lambda _: None,
    )
    card = json.loads((out / "card.json").read_text())
    run = Run(train(distillation(out, tmp_path)))
    history = history_of(run, read_policy_weights(run)[0])
    assert history["stages"][:-1] == card["stages"]
    assert [stage["name"] for stage in history["stages"]] == [teacher.name, run.path.name]
    assert history["stages"][0]["commands"]
    both = replace(distillation(out, tmp_path), name="both")
    sources = both.algorithm_config().with_sources([str(out), str(teacher)])
    run = Run(train(replace(both, config=sources)))
    twice = history_of(run, read_policy_weights(run)[0])
    assert [stage["name"] for stage in twice["stages"]] == [teacher.name, "both"]
    assert twice["steps"] == history["steps"]


def test_it_goes_on_without_its_teachers(teacher: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(teacher, gone)
    whole = train(distillation(gone, tmp_path / "whole"))
    half = train(replace(distillation(gone, tmp_path / "half"), steps=400))
    for folder in sorted((half / "checkpoints").iterdir())[1:]:
        shutil.rmtree(folder)
    shutil.rmtree(gone)
    train(TrainSettings(resume=half))
    assert_same_run(whole, half)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "name the runs or policies to learn from"),
        (["nowhere"], "there is no run nowhere"),
        (["set-hopper@third"], "after the @ comes best or a number of steps"),
    ],
)
def test_what_cannot_be_learned_from(arguments: list[str], reason: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=reason):
        parse_distillation(arguments)


def test_a_body_without_a_teacher_leaves_no_run(teacher: Path, tmp_path: Path) -> None:
    settings = distillation(teacher, tmp_path, "--bodies", "3d_cheetah_14_full")
    with pytest.raises(ValueError, match="no teacher was trained on 3d_cheetah_14_full"):
        train(settings)
    assert not (tmp_path / "student").exists()


def test_a_published_student_names_no_folders(teacher: Path, tmp_path: Path) -> None:
    run = train(distillation(teacher, tmp_path, "--bodies", "3d_hopper_3_shin"))
    out = publish(
        run, tmp_path / "small", episodes=2, threads=1, allow_uncommitted=True, say=lambda _: None
    )
    text = "".join(path.read_text() for path in out.rglob("*.json"))
    assert str(teacher.parent) not in text
    card = json.loads((out / "card.json").read_text())
    assert card["core_hours"] > 0
    assert card["steps"] == 800
    assert {row["lasted"] for row in card["results"]} == {0.0}
    _, weights = read_policy_weights(Run(out))
    assert {name.partition(".")[0] for name in weights} == {"actor", "normalizer"}


def test_images_of_trained_bodies_are_known() -> None:
    settings = TrainSettings(algorithm="distil", bodies=("3d_humanoid_7_right_leg",))
    known = known_by_mirror(settings)
    assert known == ["3d_humanoid_7_left_leg"]
    without = replace(settings, config=DistilConfig(mirror=False))
    assert known_by_mirror(without) == []
