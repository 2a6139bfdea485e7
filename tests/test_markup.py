"""Tables as Markdown and HTML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sgrl.cli import main
from sgrl.experiments.tables import Table
from sgrl.markup import Html, error_lines, html_table, markdown_table, one_line
from sgrl.setting import SettingsError
from sgrl.training.settings import TrainSettings, resolve_settings
from sgrl.viewer import readout
from sgrl.viewer.driver import load_driver
from tests.training.untrained import untrained_run


def test_markdown_is_aligned() -> None:
    assert markdown_table(("body", "n"), [("a", "1"), ("walker", "1,000")]).splitlines() == [
        "| body   |     n |",
        "| ------ | ----: |",
        "| a      |     1 |",
        "| walker | 1,000 |",
    ]
    assert markdown_table(("a", "b"), [], left=2).splitlines()[1] == "| --- | --- |"


def test_html_is_escaped_once() -> None:
    made = html_table(("<a>", "n", "what"), [("b", Html("<b>1</b>"), "&")], right=1)
    assert "<th>&lt;a&gt;</th><th class=number>n</th><th>what</th>" in made
    assert "<td>b</td><td class=number><b>1</b></td><td>&amp;</td>" in made
    assert made.startswith('<div class="scroll"><table>')


NASTY = "run\n| x | <script>alert(1)</script> [red]\x1b[2J\u202e & {\\ ~^ %$#_}"
"""A name as somebody may have given it to a folder, a card or a method."""


def test_text_ends_no_line() -> None:
    line = one_line(NASTY)
    assert line.isprintable()
    assert r"run\n| x |" in line
    assert r"\x1b[2J\u202e" in line
    assert error_lines(ValueError("one\ntwo\x1b[2J")) == r"one\ntwo\x1b[2J"
    assert error_lines(SettingsError(["one", "two\n3"])) == "one\ntwo\\n3"


def test_text_ends_no_cell_of_markdown() -> None:
    text = markdown_table(("a|b", "c"), [(NASTY, "1")])
    assert len(text.splitlines()) == 3
    for line in text.splitlines():
        assert line.replace(r"\|", "").count("|") == 3
    assert "<script" not in text
    assert "\x1b" not in text


def test_text_ends_no_element_of_html() -> None:
    text = html_table(("<b>", "c"), [(NASTY, "1")])
    assert "<script" not in text
    assert "<b>" not in text


def test_text_means_nothing_to_latex() -> None:
    text = Table(("a", "b"), ((NASTY, "1"),), 1).latex("a caption", "label")
    (line,) = (line for line in text.splitlines() if "script" in line)
    assert line.endswith(r"& 1 \\")
    commands = r"\\(text(backslash|asciitilde|asciicircum)\{\}|[_%&#${}])"
    bare = re.sub(commands, "", line.removesuffix(r"& 1 \\"))
    assert not set(bare) & set("\\_%&#${}~^"), bare


def test_a_run_is_not_called_so(tmp_path: Path) -> None:
    settings = TrainSettings(bodies=("3d_hopper_3_shin",), runs=tmp_path, name="a\nb")
    with pytest.raises(ValueError, match="has no @ and no line break"):
        resolve_settings(settings)


def test_such_a_run_is_shown_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the viewer and by the commands that name it: nothing of its name is obeyed."""
    (run, _) = untrained_run(tmp_path)
    folder = run.path.rename(tmp_path / NASTY.replace("/", ""))
    (folder / "metrics.csv").write_text("steps,return\n100,1.0\n")
    driver = load_driver(folder)
    assert driver.name == one_line(folder.name)
    title = readout.title(driver)
    assert "<script" not in title
    assert "&lt;script&gt;" in title
    page = tmp_path / "report.html"
    for arguments in (
        ["eval", str(folder), "--episodes", "1"],
        ["report", str(folder), "-o", str(page)],
    ):
        monkeypatch.setattr("sys.argv", ["sgrl", *arguments])
        main()
    shown = capsys.readouterr()
    assert one_line(folder.name) in shown.out
    assert one_line(folder.name) in shown.err
    assert all(line.isprintable() for line in (shown.out + shown.err).splitlines())
    assert "<script>alert(1)" not in page.read_text(encoding="utf-8")


def test_an_error_about_such_a_run_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a stranger may be called anything."""
    name = NASTY.replace("/", "")
    (tmp_path / name).mkdir()
    for command in ("eval", "report", "view"):
        arguments = [str(tmp_path / name), *(["-o", "x.html"] if command == "report" else [])]
        monkeypatch.setattr("sys.argv", ["sgrl", command, *arguments])
        with pytest.raises(SystemExit) as refused:
            main()
        assert isinstance(refused.value.code, str)
        assert "\x1b" not in refused.value.code
        assert refused.value.code.startswith("sgrl: ")
