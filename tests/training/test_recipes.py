"""What options are put on top of: a recipe, or what a run recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sgrl.algorithms.sac_config import SACConfig
from sgrl.algorithms.td3_config import TD3Config
from sgrl.experiments.budgets import get_budget
from sgrl.plugins import TRUST
from sgrl.training.command import parse_settings
from sgrl.training.distil_command import parse_distillation
from sgrl.training.identity import identity_of
from sgrl.training.run import Run, create_run
from sgrl.training.settings import TrainSettings, resolve_settings

from .tiny import TINY

BODY = ("--bodies", "3d_hopper_3_shin")


def resolved(*arguments: str | Path) -> TrainSettings:
    return resolve_settings(parse_settings(list(map(str, arguments))))


def recorded(folder: Path, settings: TrainSettings) -> Run:
    """A run that was told something, and has not begun."""
    return create_run(resolve_settings(replace(settings, runs=folder)))


# --- recipes


def test_the_paper_is_what_its_budget_is() -> None:
    for body, steps in (("3d_hopper_3_shin", 5_000_000), ("3d_hopper++", 10_000_000)):
        settings = resolved("--recipe", "paper", "--bodies", body)
        assert (settings.algorithm, settings.preset, settings.steps) == ("td3", "paper", steps)
        assert settings.network == resolve_settings(replace(settings, network=None)).network
        assert isinstance(settings.config, TD3Config)
        assert settings.config.batch_size == 100
        assert settings.config.buffer_size == min(10_000_000, steps + 4 * len(settings.bodies))
        budget = get_budget("paper").settings("set", body, 0, "td3")
        assert identity_of(settings) == identity_of(resolve_settings(budget))


def test_an_option_beside_a_recipe_counts() -> None:
    settings = resolved("--recipe", "paper", *BODY, "--steps", "2e6", "--td3.batch-size", "64")
    assert (settings.steps, settings.preset) == (2_000_000, "paper")
    assert settings.config == TD3Config(batch_size=64, buffer_size=2_000_004)
    other = resolved("--recipe", "paper", *BODY, "--algorithm", "sac", "--preset", "fast")
    assert isinstance(other.config, SACConfig)
    assert (other.preset, other.steps) == ("fast", 5_000_000)


def test_a_run_is_known_by_what_the_recipe_stands_for() -> None:
    words = ("--algorithm", "td3", "--preset", "paper", "--steps", "5e6")
    assert identity_of(resolved(*words, *BODY)) == identity_of(resolved("--recipe", "paper", *BODY))


# --- recorded settings


def test_a_recorded_run_again(tmp_path: Path) -> None:
    told = replace(
        TINY, algorithm="sac", bodies=("3d_walker++",), config=SACConfig(tau=0.1), minutes=3.0
    )
    run = recorded(tmp_path / "runs", replace(told, threads=1, log_every=7, name="first"))
    for where in (run.settings_file, run.path):
        again = parse_settings(["--config", str(where)])
        assert identity_of(resolve_settings(again)) == identity_of(run.settings())
        assert again.config is not None
        assert again.config.tau == 0.1
        # Not where and how it ran.
        assert (again.name, again.runs, again.log_every) == (None, Path("runs"), 2000)
        assert (again.threads, again.resume) == (0, None)


def test_options_beside_it_count_and_the_rest_follows(tmp_path: Path) -> None:
    run = recorded(tmp_path, TrainSettings(bodies=("3d_walker_7_full",), steps=3000, minutes=2.0))
    config = run.settings().config
    assert config.buffer_size < 4000
    assert config.horizon == (4.0,)
    again = resolved(
        *("--config", run.path, "--steps", "5000", "--seed", "4", "--minutes", "None"),
        *("--body", "3d_humanoid_9_full", "--sac.utd-ratio", "0.5"),
    )
    assert (again.steps, again.seed, again.minutes) == (5000, 4, None)
    assert again.config.utd_ratio == 0.5
    assert again.config.horizon == (0.8,)
    assert again.config.buffer_size > 5000
    other = resolved("--config", run.path, "--algorithm", "td3", "--preset", "many")
    assert isinstance(other.config, TD3Config)
    assert other.network == resolve_settings(replace(other, network=None)).network


def test_settings_of_an_earlier_version(tmp_path: Path) -> None:
    file = Path(__file__).parent / "recorded" / "td3-before-0.2.json"
    settings = parse_settings(["--config", str(file), "--seed", "9"])
    assert (settings.algorithm, settings.envs_per_body, settings.seed) == ("td3", 3, 9)
    assert settings.config.gamma == 0.9


def test_a_policy_that_ships_can_be_trained_again() -> None:
    settings = parse_settings(["--config", "set-hopper"])
    assert settings.bodies == ("3d_hopper_3_shin", "3d_hopper_4_lower_shin", "3d_hopper_5_full")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[:40], "settings.json: "),
        (lambda text: "[]", "settings.json holds no object"),
        (lambda text: '{"bodies": []}', "does not understand: there is no 'runs'"),
        (lambda text: "{}", "does not understand: there is no 'bodies'"),
        (lambda text: text.replace('"seed": 0', '"seed": 1'), "altered after it was written"),
    ],
)
def test_a_bad_file_is_a_line(tmp_path: Path, change: Callable[[str], str], reason: str) -> None:
    run = recorded(tmp_path, TINY)
    run.settings_file.write_text(change(run.settings_file.read_text()))
    with pytest.raises(ValueError, match=reason) as error:
        parse_settings(["--config", str(run.settings_file)])
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match="there is no file nowhere"):
        parse_settings(["--config", "nowhere/settings.json"])


def test_a_method_of_a_file_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TRUST, "_modules", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strange.py").write_text("raise SystemExit('imported')")
    values = json.loads(recorded(tmp_path / "runs", TINY).settings_file.read_text())
    del values["sha256"]
    file = tmp_path / "from_somebody.json"
    for key in ("method", "algorithm"):
        file.write_text(json.dumps(values | {key: "strange:Thing", "network": None}))
        with pytest.raises(ValueError, match="to allow it, add --trust strange"):
            resolved("--config", file)
    assert not TRUST.modules()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--recipe", "papr"], "unknown recipe 'papr'; did you mean paper"),
        (["--recipe", "paper", "--config", "x"], "give one of them"),
        (["--recipe", "paper", "--resume", "x"], "leave --recipe out"),
        (["--config=x", "--resume=x"], "leave --config out"),
    ],
)
def test_what_does_not_go_together(arguments: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_settings(arguments)


def test_a_distillation_again(tmp_path: Path) -> None:
    told = parse_distillation(["set-hopper", "--steps", "500", "--distil.noise", "0.3"])
    run = recorded(tmp_path, told)
    again = parse_distillation(["--config", str(run.path), "--seed", "2"])
    assert again.config == replace(told.config, teachers=("set-hopper",))
    assert (again.preset, again.variant, again.seed) == ("many", "mixed", 2)
    other = parse_distillation(["set-walker", "--config", str(run.path)])
    assert other.config.teachers == ("set-walker",)
    for option in ("--recipe", "--algorithm"):
        with pytest.raises(ValueError, match=f"{option} is an option of sgrl train"):
            parse_distillation(["set-hopper", option, "paper"])
