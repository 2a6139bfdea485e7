"""Run folders: whole, never shared, found again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sgrl.training.run import create_run, find_run
from sgrl.training.settings import TrainSettings, resolve_settings

Make = Callable[..., TrainSettings]


def test_what_is_recorded(tiny: Make) -> None:
    settings = resolve_settings(tiny(name="first"))
    run = create_run(settings)
    assert run.path == settings.runs / "first"
    assert run.settings() == settings
    versions = json.loads((run.path / "versions.json").read_text())
    assert {"python", "sgrl", "torch", "mujoco"} <= versions.keys()
    (process,) = versions["processes"]
    assert {"command", "commit", "started"} == process.keys()
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
    with pytest.raises(ValueError, match=r"settings\.json: settings that"):
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
