"""A training that is asked to stop saves; one whose output goes nowhere goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sgrl.training.checkpoint import list_checkpoints
from sgrl.training.interrupt import (
    RaisedSignals,
    SignalInterrupt,
    StopRequest,
    output_may_close,
)
from sgrl.training.settings import TrainSettings
from sgrl.training.settings_file import settings_to_json

Make = Callable[..., TrainSettings]
SCRIPT = """
import signal, sys
# As a terminal starts it, however these tests were started (nohup make test).
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
for name in sys.argv[2:]:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
from pathlib import Path
from sgrl.training.command import train_command
from sgrl.training.settings_file import settings_from_json
train_command(settings_from_json(Path(sys.argv[1]).read_text()))
"""


@contextmanager
def ignored(number: int) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def as_in_a_terminal(number: int) -> Iterator[None]:
    """As in a terminal, however these tests were started; afterwards nothing has changed."""
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)
    try:
        yield
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)


def start(settings: TrainSettings, *ignored: str) -> subprocess.Popen[str]:
    """A training in a process of its own that ignores some signals when it begins."""
    given = settings.runs.parent / "given.json"
    given.write_text(settings_to_json(settings))
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(given), *ignored],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        text=True,
    )


def wait_for_row(process: subprocess.Popen[str], run: Path) -> None:
    deadline = time.monotonic() + 120
    while not ((file := run / "metrics.csv").exists() and file.stat().st_size):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no row in two minutes"
        time.sleep(0.01)


def test_a_reader_that_leaves_loses_nothing(tiny: Make) -> None:
    """As `sgrl train | head -n 1`: it goes on to its end."""
    settings = tiny(name="head")
    process = start(settings)
    assert process.stdout is not None
    assert process.stderr is not None
    assert "training in" in process.stdout.readline()
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait(120) == 0, error
    assert error == ""
    assert int(list_checkpoints(settings.runs / "head" / "checkpoints")[-1].name) == settings.steps


def test_a_terminal_that_closes_saves(tiny: Make) -> None:
    settings = tiny(name="hangup", steps=10**8, buffer_size=1000, checkpoint_every=10**7)
    process = start(settings)
    run = settings.runs / "hangup"
    wait_for_row(process, run)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # a write to it fails from now on
    process.stderr.close()
    process.send_signal(signal.SIGHUP)
    assert process.wait(120) == 128 + signal.SIGHUP
    assert len(list_checkpoints(run / "checkpoints")) == 1
    assert "SIGHUP: saved at" in (run / "log.txt").read_text()


def test_under_nohup_it_goes_on_and_still_hears_ctrl_c(tiny: Make) -> None:
    settings = tiny(name="nohup", steps=10**8, buffer_size=1000, checkpoint_every=10**7)
    process = start(settings, "SIGHUP", "SIGINT")
    run = settings.runs / "nohup"
    wait_for_row(process, run)
    process.send_signal(signal.SIGHUP)
    rows = (run / "metrics.csv").stat().st_size
    deadline = time.monotonic() + 120
    while (run / "metrics.csv").stat().st_size == rows:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT, error
    assert "SIGINT: saved at" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_raised(number: signal.Signals) -> None:
    with (
        as_in_a_terminal(number),
        RaisedSignals(),
        pytest.raises(SignalInterrupt, match=number.name) as stopped,
    ):
        signal.raise_signal(number)
    assert stopped.value.number == number
    assert isinstance(stopped.value, KeyboardInterrupt)


def test_ctrl_c_is_heard_where_it_was_ignored(capfd: pytest.CaptureFixture[str]) -> None:
    with ignored(signal.SIGINT):
        with RaisedSignals(), pytest.raises(SignalInterrupt):
            signal.raise_signal(signal.SIGINT)
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.signal == signal.SIGINT
            with pytest.raises(KeyboardInterrupt):  # a second one stops at once
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert capfd.readouterr().err.startswith("SIGINT: the run will be saved")


def test_a_hangup_is_not_heard_where_it_was_ignored() -> None:
    with ignored(signal.SIGHUP), StopRequest() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert stop.signal is None


def test_other_threads_leave_signals_alone() -> None:
    def enter() -> None:
        with StopRequest() as stop:
            assert stop.signal is None

    thread = threading.Thread(target=enter)
    before = signal.getsignal(signal.SIGTERM)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before


def test_what_is_printed_may_go_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        with output_may_close():
            print("to nobody", flush=True)
            print("x" * 100_000)
            sys.stdout.writelines(["a", "b"])
        assert sys.stdout is gone
        monkeypatch.setattr(sys, "stdout", None)
        with output_may_close():
            print("nor here")
