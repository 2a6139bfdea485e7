"""The page as a file: whole, self-contained, safe, or not written at all."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from sgrl import cli
from sgrl.report.page import embed, write_report
from tests.report.made import HOPPERS, made_run


def data_of(page: Path, name: str = "data") -> object:
    text = page.read_text(encoding="utf-8")
    return json.loads(re.findall(rf'id="{name}">(.*?)</script>', text, re.DOTALL)[0])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [made_run(folder, {HOPPERS[0]: 0.1 + seed}, seed=seed).path for seed in (0, 1)]


def test_nothing_in_the_data_can_end_the_script() -> None:
    nasty = {"</script><script>alert(1)//": ["<!--", "&lt;", "\u2028", 1e300, None]}
    text = embed(nasty)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == nasty
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed(float("nan"))


def test_one_file_with_everything_in_it(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "new" / "report.html"
    title = "</title><script>alert(1)</script>"
    assert write_report(runs, out, title) == 2
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    page = out.read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert re.findall(r"https?://[\w.]+", page) == ["http://www.w3.org"], "the name of SVG alone"
    assert not re.search(r"<(link|script|img)[^>]+(src|href)=.(?!data:)", page)
    assert page.count("</script>") == 3
    data = data_of(out)
    assert isinstance(data, dict)
    assert data["series"] == ["set"]
    (group,) = data["groups"]
    assert [run["seed"] for run in group["runs"]] == [0, 1]
    assert group["runs"][1]["columns"][f"return/{HOPPERS[0]}"][-1] == 5500.0


def test_replays_are_in_the_page_if_small_and_links_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(tmp_path / "runs", {HOPPERS[0]: 1.0}, name="r")
    (run.path / "replay.html").write_text("<p>small</p></script>", encoding="utf-8")
    (run.path / "far off").mkdir()
    (run.path / "far off" / "big.html").write_text("x" * 500, encoding="utf-8")
    (run.path / "video.mp4").write_bytes(b"moving")
    monkeypatch.setattr("sgrl.report.page.LARGEST_EMBEDDED", 100)
    out = tmp_path / "pages" / "report.html"
    write_report([run.path], out)
    assert data_of(out, "replay-data") == [
        {"name": "r: big.html", "link": "../runs/r/far%20off/big.html"},
        {
            "name": "r: replay.html",
            "link": "../runs/r/replay.html",
            "page": "<p>small</p></script>",
        },
        {"name": "r: video.mp4", "link": "../runs/r/video.mp4"},
    ]
    assert out.read_text(encoding="utf-8").count("</script>") == 3


def test_the_command(
    runs: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "r.html"
    monkeypatch.setattr(sys, "argv", ["sgrl", "report", *map(str, runs), "-o", str(out)])
    cli.main()
    assert capsys.readouterr().out.startswith(f"wrote {out}: 2 runs, ")
    assert out.is_file()


@pytest.mark.parametrize(
    ("run", "out", "message"),
    [
        ("nowhere", "r.html", "there is no run .*nowhere"),
        (".", "r.html", "is not a run"),
        (None, "r.pdf", r"r\.pdf: a report is an \.html file"),
        (None, "folder.html", r"folder\.html can't be written: .*is a folder"),
        (None, "file/r.html", r"file/r\.html can't be written: (Not a directory|File exists)"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    runs: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: str | None,
    out: str,
    message: str,
) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    asked = runs[0] if run is None else tmp_path / run
    arguments = ["sgrl", "report", str(asked), "-o", str(tmp_path / out)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match=f"^sgrl: .*{message}"):
        cli.main()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.html"]
