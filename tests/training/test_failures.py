"""When things go wrong: a clear message, exit code 1, and nothing that was there is damaged."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sgrl.algorithms.replay import Replay
from sgrl.algorithms.td3 import TD3
from sgrl.models.set import SETConfig
from sgrl.training import checkpoint as checkpoint_module
from sgrl.training.checkpoint import (
    METADATA,
    WEIGHTS,
    list_checkpoints,
    read_checkpoint,
    write_checkpoint,
)
from sgrl.training.command import train_command
from sgrl.training.loop import train
from sgrl.training.metrics import MetricsFile
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings

from .tiny import TINY, assert_same_run, read_final_weights

Make = Callable[..., TrainSettings]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(replace(TINY, runs=tmp_path_factory.mktemp("runs"), name="whole"))


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A finished run to damage."""
    return Path(shutil.copytree(whole, tmp_path / "damaged"))


def fail(settings: TrainSettings) -> str:
    """What the command says; it must end with exit code 1."""
    with pytest.raises(SystemExit) as raised:
        train_command(settings)
    message = raised.value.code
    assert isinstance(message, str), "Python exits with 1 and prints a message that is a string"
    assert message.startswith("sgrl: ")
    assert "\n" not in message
    return message


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the log, and what is in it."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "log.txt")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def full_disk(*args: Any, **named: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["checkpoint", "metrics", "replay"])
def test_full_disk(tiny: Make, whole: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    settings = tiny(name="full", steps=200, buffer_size=500)
    run = settings.runs / "full"
    train(settings)
    known = {path.name: contents(path) for path in list_checkpoints(run / "checkpoints")}
    place = {
        "checkpoint": (checkpoint_module, "write_checkpoint"),
        "metrics": (MetricsFile, "append"),
        "replay": (Replay, "add"),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*place[what], full_disk)
        message = fail(TrainSettings(resume=run, steps=400))
    assert "No space left on device" in message
    assert "the last good checkpoint, at 200 steps, is kept" in message
    assert f"sgrl train --resume {run}" in message
    assert message.removeprefix("sgrl: ") in (run / "log.txt").read_text()
    assert {path.name: contents(path) for path in list_checkpoints(run / "checkpoints")} == known
    train(TrainSettings(resume=run, steps=400))
    assert_same_run(run, whole)


def test_a_disk_that_is_too_full_for_the_log(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is there room for what TensorBoard and metrics.csv have in their buffers."""
    settings = tiny(name="full", steps=200, buffer_size=500)
    train(settings)

    def fills_up(self: Run, message: str) -> None:
        if message.startswith("stopped"):
            full_disk()

    append = MetricsFile.append

    def does_not_fit(self: MetricsFile, row: Any) -> None:
        self._file.close()
        self._file = open("/dev/full", "wb")  # noqa: SIM115 (closed by whoever closes the metrics)
        append(self, row)

    monkeypatch.setattr(Run, "log", fills_up)
    monkeypatch.setattr(MetricsFile, "append", does_not_fit)
    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter.close", full_disk)
    message = fail(TrainSettings(resume=settings.runs / "full", steps=400))
    assert "No space left on device" in message
    assert "the last good checkpoint, at 200 steps, is kept" in message


def test_unwritable_folder(tiny: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = fail(tiny(runs=tmp_path / "file"))
    assert f"no run can be made in {tmp_path / 'file'}" in message
    # A file where a folder above should be, and one where not even root can write.
    for runs in (tmp_path / "file" / "runs", Path("/proc/runs")):
        assert f"no run can be made in {runs}: " in fail(tiny(runs=runs))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_without_permission(tiny: Make, tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("whoever runs this may write anywhere; /proc is tried above")
    assert f"no run can be made in {tmp_path / 'runs'}: Permission" in fail(tiny())


def test_a_loss_that_is_not_a_number(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny(name="nan")
    gradient_step = TD3.gradient_step

    def sometimes_nan(self: TD3, batch: Any) -> dict[str, float]:
        if self.updates == 22:
            batch.rewards.fill_(float("nan"))
        return gradient_step(self, batch)

    monkeypatch.setattr(TD3, "gradient_step", sometimes_nan)
    message = fail(settings)
    run = settings.runs / "nan"
    assert "stopped at 332 steps" in message
    assert "nan" in message
    assert "the last good checkpoint, at 300 steps, is kept" in message
    assert f"sgrl train --init-from {run}, with a smaller learning rate" in message
    for folder in list_checkpoints(run / "checkpoints"):
        read_checkpoint(folder)
    assert all(tensor.isfinite().all() for tensor in read_final_weights(run).values())


def test_a_loss_that_is_not_a_number_before_the_first_checkpoint(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradient_step = TD3.gradient_step

    def nan(self: TD3, batch: Any) -> dict[str, float]:
        batch.rewards.fill_(float("nan"))
        return gradient_step(self, batch)

    monkeypatch.setattr(TD3, "gradient_step", nan)
    message = fail(tiny(checkpoint_every=10_000))
    assert "there was no checkpoint yet. To go on: start anew with a smaller" in message


def test_a_corrupt_checkpoint(run: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *_, newest = list_checkpoints(run / "checkpoints")
    (newest / WEIGHTS).write_bytes((newest / WEIGHTS).read_bytes()[:100])
    train_command(TrainSettings(resume=run))
    said = capsys.readouterr().out
    assert "weights.safetensors is truncated or altered" in said
    assert f"it is now {newest.name}.corrupt, using the one before it" in said
    assert "at 300 of 400 steps" in said
    assert_same_run(run, whole)


def test_only_corrupt_checkpoints(run: Path) -> None:
    for folder in list_checkpoints(run / "checkpoints"):
        (folder / WEIGHTS).unlink()
    before = contents(run)
    assert "no checkpoint can be used" in fail(TrainSettings(resume=run))
    assert contents(run) == before


def test_transitions_that_are_gone(run: Path) -> None:
    shutil.rmtree(run / "replay")
    checkpoints = contents(run / "checkpoints")
    assert "what was stored of 3d_hopper_3_shin is gone" in fail(TrainSettings(resume=run))
    assert contents(run / "checkpoints") == checkpoints


def test_transitions_that_are_truncated(run: Path) -> None:
    file = run / "replay" / "00_3d_hopper_3_shin.f32"
    os.truncate(file, file.stat().st_size // 2)
    before = contents(run)
    assert "00_3d_hopper_3_shin.f32 holds" in (message := fail(TrainSettings(resume=run)))
    assert "it is truncated, or was written for another" in message
    assert contents(run) == before


def test_a_checkpoint_of_another_size(run: Path, tiny: Make) -> None:
    other = train(tiny(network=replace(TINY.network, hidden=9), utd_ratio=0.0))  # type: ignore[type-var]
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    before = contents(run)
    assert "the checkpoint is not of this run: its " in fail(TrainSettings(resume=run))
    assert contents(run) == before


def test_a_checkpoint_without_some_state(run: Path) -> None:
    for folder in list_checkpoints(run / "checkpoints"):
        found = read_checkpoint(folder)
        assert found.state is not None
        del found.state["losses"]
        write_checkpoint(run / "checkpoints", found.metadata["steps"], found.pack(), keep=9)
    before = contents(run)
    assert "not of this run: it has no 'losses'" in fail(TrainSettings(resume=run))
    assert contents(run) == before


def test_counters_that_were_altered(run: Path, whole: Path) -> None:
    *_, newest = list_checkpoints(run / "checkpoints")
    text = (newest / METADATA).read_text()
    (newest / METADATA).write_text(text.replace('"steps": 400', '"steps": 399', 1))
    train_command(TrainSettings(resume=run))
    assert (run / "checkpoints" / f"{newest.name}.corrupt").exists()
    assert_same_run(run, whole)


def test_a_checkpoint_of_another_method(run: Path, tiny: Make) -> None:
    other = train(tiny(method="swat", network=None, utd_ratio=0.0))
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    before = contents(run)
    message = fail(TrainSettings(resume=run))
    assert "not of this run: its method is 'swat', not 'set'" in message
    assert contents(run) == before


def test_starting_from_another_method_or_size(whole: Path, tiny: Make) -> None:
    message = fail(tiny(init_from=whole, method="swat", network=None))
    assert "another method: set, not swat" in message
    message = fail(tiny(init_from=whole, network=SETConfig(layers=2)))
    assert "are of another method or size" in message
    message = fail(tiny(init_from=whole, network=replace(TINY.network, hidden=9)))  # type: ignore[type-var]
    assert f"cannot start from {whole}: these weights are of another size or body: actor" in message
    message = fail(tiny(init_from=whole, preset="many", network=None))
    assert f"{whole} is of preset fast, not many" in message
    assert not list(tiny().runs.iterdir()), "a run that never began is left behind"


def test_missing_runs(tiny: Make, tmp_path: Path) -> None:
    assert "there is no run" in fail(TrainSettings(resume=tmp_path / "none"))
    assert "there is no run" in fail(tiny(init_from=tmp_path / "none"))
    assert not tiny().runs.exists()


def test_unknown_body(tiny: Make) -> None:
    assert "did you mean 3d_hopper_5_full" in fail(tiny(bodies=("3d_hoper_5_full",)))
    assert not tiny().runs.exists()


def test_a_buffer_that_does_not_fit(tiny: Make) -> None:
    message = fail(tiny(buffer_size=10**12))
    assert "does not fit" in message
    assert "take a smaller buffer_size" in message
    assert not list(tiny().runs.iterdir())


def test_two_resumes_at_once(run: Path) -> None:
    from sgrl.training.run import Run

    with Run(run).locked():
        assert "another process is training" in fail(TrainSettings(resume=run))
