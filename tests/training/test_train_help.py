"""`sgrl train --help` fits on a screen and says where the rest is."""

from __future__ import annotations

import pytest

from sgrl.training.command import parse_settings
from sgrl.training.distil_command import parse_distillation


@pytest.fixture(autouse=True)
def _screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        parse_settings(arguments)
    assert not stop.value.code
    return capsys.readouterr().out


def test_the_short_help_is_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--help")
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines[3:])) <= 80
    for option in ("bodies", "recipe", "config", "algorithm", "minutes", "resume"):
        assert f"--{option}" in text
    assert "--log-every" not in text
    assert "--sac." not in text
    assert lines[-1] == (
        "All: sgrl train --help all; an algorithm's own: --help sac|td3|ppo|distil"
    )


def test_that_of_a_distillation_has_its_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_distillation(["--help"])
    text = capsys.readouterr().out
    assert "usage: sgrl distil RUN [RUN ...]" in text
    assert "(default: many)" in text
    assert "(default: mixed)" in text
    assert "--algorithm" not in text
    assert "--recipe" not in text
    assert text.splitlines()[-1].endswith("an algorithm's own: --help distil")
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize(
    "arguments", [("--help", "td3"), ("-h", "td3"), ("--algorithm", "td3", "--help")]
)
def test_options_of_an_algorithm_on_request(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    text = shown(capsys, *arguments)
    assert "--td3.exploration-noise" in text
    assert "--ppo." not in text
    assert "--minutes" not in text


def test_all_of_them_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--help", "all")
    for option in ("--log-every", "--trust", "--sac.tau", "--td3.tau", "--ppo.n-steps"):
        assert option in text
    assert "with _mirrored" in text, "a text is broken where its source is"


def test_what_there_is_no_help_on() -> None:
    with pytest.raises(ValueError, match="no help on 'sacc'; did you mean sac"):
        parse_settings(["--help", "sacc"])
