"""Run folders: whole, never shared, found again."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sgrl.files import UnsafeFileError
from sgrl.training.run import create_run, find_run
from sgrl.training.settings import TrainSettings, resolve_settings
from tests.training.edit import edit_settings

Make = Callable[..., TrainSettings]


def test_what_is_recorded(tiny: Make) -> None:
    settings = resolve_settings(tiny(name="first"))
    run = create_run(settings)
    assert run.path == settings.runs / "first"
    assert run.settings() == settings
    versions = json.loads((run.path / "versions.json").read_text())
    assert {"python", "sgrl", "torch", "mujoco"} <= versions.keys()
    (process,) = versions["processes"]
    about = {"threads": settings.threads, "steps": 0, "seconds": 0.0}
    assert process.items() >= about.items()
    assert process.keys() - about.keys() == {"command", "commit", "started"}
    run.log("hello")
    assert (run.path / "log.txt").read_text().endswith(" hello\n")


def test_two_runs_never_share_a_folder(tiny: Make) -> None:
    settings = resolve_settings(tiny(name="same"))
    (settings.runs / "same-3").mkdir(parents=True)
    (settings.runs / "same-3" / "notes.txt").write_text("mine")
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(create_run, [settings] * 16))
    assert len({run.path for run in runs}) == 16
    assert all(run.settings() == replace(settings, name=run.path.name) for run in runs)
    assert [path.name for path in (settings.runs / "same-3").iterdir()] == ["notes.txt"]
    assert len({run.identifier() for run in runs}) == 16
    assert not list(settings.runs.glob(".*")), "drafts are left behind"


def test_finding(tiny: Make, tmp_path: Path) -> None:
    run = create_run(resolve_settings(tiny(name="one")))
    runs = run.path.parent
    assert find_run(run.path) == find_run("one", runs) == run
    with pytest.raises(FileNotFoundError, match="there is no run two; there are one"):
        find_run("two", runs)
    with pytest.raises(FileNotFoundError, match="there are no runs in"):
        find_run(tmp_path / "three")
    with pytest.raises(FileNotFoundError, match=r"is not a run: it has no settings\.json"):
        find_run(tmp_path)


def test_settings_that_were_damaged(tiny: Make) -> None:
    run = create_run(resolve_settings(tiny()))
    run.settings_file.write_text("{")
    with pytest.raises(ValueError, match=r"settings\.json: Expecting"):
        run.settings()


def test_one_process_at_a_time(tiny: Make) -> None:
    run = create_run(resolve_settings(tiny()))
    with (
        run.locked(),
        pytest.raises(ValueError, match="another process is training"),
        run.locked(),
    ):
        pass
    with run.locked():
        pass


def test_a_process_that_is_about_to_end_is_waited_for(tiny: Make) -> None:
    run = create_run(resolve_settings(tiny()))
    held, entered = ExitStack(), threading.Event()
    held.enter_context(run.locked())
    threading.Timer(0.3, lambda: (entered.set(), held.close())).start()
    with run.locked():
        assert entered.is_set()


def test_nowhere_to_write(tiny: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match="no run can be made in"):
        create_run(resolve_settings(tiny(runs=tmp_path / "file" / "runs")))
    assert (tmp_path / "file").read_text() == "not a folder"


def test_every_bit_of_the_settings_is_checked(tiny: Make) -> None:
    run = create_run(resolve_settings(tiny()))
    whole = run.settings_file.read_bytes()
    text = len(whole.rstrip())
    for bit in range(0, 8 * text, 5):
        altered = bytearray(whole)
        altered[bit // 8] ^= 1 << bit % 8
        run.settings_file.write_bytes(altered)
        with pytest.raises(ValueError, match=r"settings\.json: ") as refused:
            run.settings()
        assert len(str(refused.value).splitlines()) == 1
    run.settings_file.write_bytes(whole.replace(b'"seed": 0', b'"seed": 1'))
    with pytest.raises(ValueError, match="altered after it was written; restore it, or remove"):
        run.settings()
    edit_settings(run, seed=1)
    assert run.settings().seed == 1, "as those of before there was a checksum"


@pytest.mark.parametrize("text", ["[]", "3", "", "[" * 100_000, '{"sha256": []}', "{}"])
def test_settings_that_are_something_else(tiny: Make, text: str) -> None:
    run = create_run(resolve_settings(tiny()))
    run.settings_file.write_text(text)
    with pytest.raises(ValueError, match=r"settings\.json: "):
        run.settings()


def test_a_run_is_whole_without_its_versions(tiny: Make) -> None:
    run = create_run(resolve_settings(tiny(name="one")))
    file = run.path / "versions.json"
    recorded = run.versions()
    assert run.identifier() == f"one-{recorded['id']}"
    for lost in ("", "[]", "{", '{"processes": 3, "id": [], "torch": {}}'):
        file.write_text(lost)
        assert run.versions()["processes"] == []
        assert run.identifier() == "one-unknown"
    file.unlink()
    run.note_process(run.settings().threads, 0, 0.0)
    (process,) = run.versions()["processes"]
    assert process == recorded["processes"][0] | {"started": process["started"]}


@pytest.mark.parametrize(
    "name",
    ["settings.json", "versions.json", "log.txt", "lock", "metrics.csv", "replay/x", "replay"],
)
def test_nothing_is_written_where_a_link_leads(tiny: Make, tmp_path: Path, name: str) -> None:
    run, home = create_run(resolve_settings(tiny())), tmp_path / "home"
    home.mkdir()
    target = home / "private"
    target.write_text("private")
    (run.path / name).parent.mkdir(exist_ok=True)
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(home if name == "replay" else target)
    for draft in (".settings.json.draft", ".versions.json.draft"):
        (run.path / draft).symlink_to(target)
    for act in (
        lambda: run.log("hello"),
        lambda: run.locked().__enter__(),
        lambda: run.metrics(),
        lambda: run.settings(),
        lambda: run.note_process(1, 0, 0.0),
        lambda: run.write_settings(resolve_settings(tiny())),
    ):
        with suppress(UnsafeFileError, ValueError):
            act()
    assert target.read_text() == "private"
    assert list(home.iterdir()) == [target]


def test_the_umask_is_respected(tiny: Make) -> None:
    before = os.umask(0o077)
    try:
        run = create_run(resolve_settings(tiny()))
        run.log("hello")
    finally:
        os.umask(before)
    assert [path for path in run.path.rglob("*") if path.stat().st_mode & 0o077] == []
    assert not run.path.stat().st_mode & 0o077
    before = os.umask(0o022)
    try:
        other = create_run(resolve_settings(tiny()))
    finally:
        os.umask(before)
    assert other.path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("text", ["steps\nx\n", "a,b\n1,2\n", "steps\n\n1e\n", "\xff"])
def test_metrics_that_are_something_else(tiny: Make, text: str) -> None:
    run = create_run(resolve_settings(tiny()))
    run.metrics_file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"metrics\.csv is not a table of metrics"):
        run.metrics()


def test_metrics_while_a_row_is_written(tiny: Make) -> None:
    run = create_run(resolve_settings(tiny()))
    assert run.metrics() == []
    run.metrics_file.write_text("steps,return\n1,\n2,3.5\n3")
    assert run.metrics() == [{"steps": 1, "return": None}, {"steps": 2, "return": 3.5}]
