"""A data folder executes no code: what only a file names is not imported."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import sgrl
from sgrl import cli
from sgrl.experiments.local import LocalRunner
from sgrl.experiments.runner import make_job
from sgrl.models import methods
from sgrl.models.methods import get_method
from sgrl.models.set import SETConfig
from sgrl.plugins import TRUST, Trust, import_named
from sgrl.training.loop import train
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings
from sgrl.training.settings_file import settings_from_json, settings_to_json
from tests.training.tiny import TINY

MODULE = """
import pathlib
pathlib.Path({marker!r}).touch()
import torch
from sgrl.models.network import FLAT_FEATURES

class Net(torch.nn.Module):
    def __init__(self, role):
        super().__init__()
        self.layer = torch.nn.Linear(FLAT_FEATURES + role.action_inputs, role.outputs)

    def forward(self, batch, action=None):
        limbs = batch.flat
        return self.layer(limbs if action is None else torch.cat((limbs, action), dim=-1))
"""


@pytest.fixture(autouse=True)
def _nothing_trusted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a new process; modules that a test imported are gone after it."""
    for name in ("_modules", "_runs"):
        monkeypatch.setattr(TRUST, name, {})
    monkeypatch.setattr(TRUST, "_folders_of_runs", dict(TRUST._folders_of_runs))
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delenv("SGRL_TRUST", raising=False)
    before, threads = set(sys.modules), torch.get_num_threads()
    methods._import_method.cache_clear()
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("mine", "runs", "notes", "package"):
            del sys.modules[name]
    torch.set_num_threads(threads)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that is there once a module of a test was run."""
    return tmp_path / "was_run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(replace(TINY, steps=200, runs=tmp_path_factory.mktemp("runs"), name="nice"))


@pytest.fixture
def strange(trained: Path, here: Path, marker: Path) -> Path:
    """A stranger's run, whose settings name a module that lies in it."""
    run = Path(shutil.copytree(trained, here / "runs" / "nice"))
    (run / "notes.py").write_text(MODULE.format(marker=str(marker)), encoding="utf-8")
    for package in (run, run.parent):
        (package / "__init__.py").write_text(f"open({str(marker)!r}, 'w')\n", encoding="utf-8")
    settings = Run(run).settings()
    Run(run).write_settings(replace(settings, method="runs.nice.notes:Net", network=None))
    return run


def command(monkeypatch: pytest.MonkeyPatch, line: str) -> str:
    """What a command that fails says: a line."""
    monkeypatch.setattr(sys, "argv", ["sgrl", *line.split()])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    message = raised.value.code
    assert isinstance(message, str)
    assert message.startswith("sgrl: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "line",
    [
        "eval runs/nice --episodes 1",
        "view nice",
        "replay runs/nice",
        "video runs/nice",
        "publish runs/nice --out made",
        "train --resume runs/nice",
    ],
)
def test_no_command_imports_what_a_run_names(
    strange: Path, marker: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    message = command(monkeypatch, line)
    assert "would import the module runs.nice.notes" in message
    assert "add --trust runs.nice.notes" in message
    refused = command(monkeypatch, f"{line} --trust runs.nice.notes")
    assert "nothing in a folder of runs is imported" in refused
    assert not marker.exists()


def test_training_from_its_weights_does_not(
    strange: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = command(
        monkeypatch, "train --init-from runs/nice --method set --bodies 3d_hopper_3_shin"
    )
    assert "are of another method: runs.nice.notes:Net, not set" in message
    message = command(
        monkeypatch,
        "train --init-from runs/nice --method runs.nice.notes:Net --bodies 3d_hopper_3_shin",
    )
    assert "nothing in a folder of runs is imported" in message
    assert not marker.exists()


@pytest.mark.parametrize("more", ["", " --trust runs.nice.notes"])
def test_a_report_does_not(
    strange: Path, here: Path, marker: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["sgrl", "report", "nice", *more.split()])
    cli.main()
    page = (here / "report.html").read_text(encoding="utf-8")
    assert "Not measured is the method runs.nice.notes:Net" in page
    assert not marker.exists()


def test_a_folder_of_runs_elsewhere(
    strange: Path, here: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the folder is, whatever the Python path, whoever asks."""
    (here / "elsewhere").mkdir()
    runs = (here / "runs").rename(here / "elsewhere" / "results")
    line = f"eval {runs / 'nice'} --trust notes --trust results.nice.notes --trust results.beside"
    (runs / "beside.py").write_text(MODULE.format(marker=str(marker)), encoding="utf-8")
    for method, path in (
        ("notes:Net", runs / "nice"),
        ("results.nice.notes:Net", runs.parent),
        ("results.beside:Net", runs.parent),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [*sys.path, str(path)])
            run = Run(runs / "nice")
            run.write_settings(replace(run.settings(), method=method))
            assert "nothing in a folder of runs" in command(patch, line)
    assert not marker.exists()


@pytest.mark.parametrize("to", ["inside", "outside"])
def test_links_do_not_help(
    strange: Path, here: Path, marker: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    run = Run(strange)
    if to == "inside":
        (here / "mine.py").symlink_to(strange / "notes.py")
        run.write_settings(replace(run.settings(), method="mine:Net"))
    else:
        (here / "mine.py").write_text(MODULE.format(marker=str(marker)), encoding="utf-8")
        (strange / "notes.py").unlink()
        (strange / "notes.py").symlink_to(here / "mine.py")
    line = "eval nice --trust mine --trust runs"
    assert "nothing in a folder of runs is imported" in command(monkeypatch, line)
    assert not marker.exists()


def test_who_trusts_a_module_gets_it(
    trained: Path, here: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the argument or by the environment; by the option, see test_extending."""
    (here / "mine.py").write_text(MODULE.format(marker=str(marker)), encoding="utf-8")
    settings = replace(TINY, steps=200, network=None, method="mine:Net", runs=here / "runs")
    with pytest.raises(ValueError, match="add --trust mine"):
        train(replace(settings, name="first"))
    assert not marker.exists()
    run = train(replace(settings, name="first"), trust=("mine",))
    assert marker.exists()
    monkeypatch.setattr(TRUST, "_modules", {})
    methods._import_method.cache_clear()
    with pytest.raises(ValueError, match=r"Python: trust=\(\"mine\",\)"):
        sgrl.load_policy(run)
    assert sgrl.load_policy(run, trust=("mine",)).method == "mine:Net"
    monkeypatch.setattr(TRUST, "_modules", {})
    monkeypatch.setenv("SGRL_TRUST", "other, mine")
    methods._import_method.cache_clear()
    assert sgrl.load_policy("first").method == "mine:Net"


def test_a_child_inherits_what_was_trusted(here: Path, marker: Path) -> None:
    (here / "mine.py").write_text(MODULE.format(marker=str(marker)), encoding="utf-8")
    settings = replace(TINY, steps=100, network=None, method="mine:Net", runs=here / "runs")
    job = make_job(settings, "child", here / "runs")
    (outcome,) = LocalRunner(1).run([job], lambda *_: None)
    assert "add --trust mine" in outcome.reason
    assert not marker.exists()
    sgrl.trust("mine")
    assert [one.status for one in LocalRunner(1).run([job], lambda *_: None)] == ["done"]
    assert marker.exists()


def test_reading_settings_imports_nothing(here: Path, marker: Path) -> None:
    (here / "mine.py").write_text(MODULE.format(marker=str(marker)), encoding="utf-8")
    sgrl.trust("mine")
    settings = TrainSettings(bodies=("3d_hopper_3_shin",), method="mine:Net", network=SETConfig())
    read = settings_from_json(settings_to_json(settings))
    assert read.method == "mine:Net"
    assert read.network["layers"] == SETConfig().layers
    assert "mine" not in sys.modules
    assert not marker.exists()


def test_the_option_is_in_the_help_of_every_command_that_reads_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reads = {"train", "eval", "report", "view", "replay", "video", "publish", "certify"}
    for name in (*reads, "reproduce"):
        everything = ["all"] if name == "train" else []
        monkeypatch.setattr(sys, "argv", ["sgrl", name, "--help", *everything])
        with pytest.raises(SystemExit):
            cli.main()
        assert "--trust MODULE" in capsys.readouterr().out, name


def test_what_is_trusted() -> None:
    trust = Trust()
    trust.add(("mine", "package.part"))
    assert [name for name in ("mine", "mine.sub", "minefield", "") if trust.covers(name)] == [
        "mine",
        "mine.sub",
    ]
    assert trust.covers("package.part")
    assert not trust.covers("package")
    trust.add_named(("other:Net+hn", "set", "swat+hn", "no name:Net"))
    assert trust.modules() == ("mine", "package.part", "other")
    for wrong in ("mine:Net", "", "a b", "./mine", "a\nb", "a..b"):
        with pytest.raises(ValueError, match="takes the name of a module"):
            trust.add((wrong,))


@pytest.mark.parametrize("name", ["a\nb:C", "\x1b[31m:C", ":C", "a:", "a.:C", "a:b c", "../a:C"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="would be module:name") as raised:
        import_named(name, "algorithm")
    assert str(raised.value).isprintable()
    with pytest.raises(ValueError, match=r"module:name|unknown method"):
        get_method(name)
