"""`sgrl view`, `replay` and `video`, as a user runs them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import imageio_ffmpeg
import pytest

from sgrl.cli import main
from tests.test_cli import assert_one_line_error, sgrl
from tests.training.untrained import HOPPER, WALKER, untrained_run

pytest.importorskip("viser")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose policy drives any body."""
    return untrained_run(tmp_path_factory.mktemp("any"))[0].path


@pytest.fixture(scope="module")
def monolithic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose policy drives one."""
    return untrained_run(tmp_path_factory.mktemp("one"), method="monolithic")[0].path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs the command in an empty folder and gives what it says when it refuses, if it does."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", ["sgrl", *map(str, arguments)])
        try:
            main()
        except SystemExit as refusal:
            return str(refusal)
        return ""

    return call


def started(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """`sgrl view` in the background."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "sgrl.cli", "view", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_view_serves_a_page_until_it_is_stopped(
    tmp_path: Path, policy: Path, how: signal.Signals
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        process = started(policy, "--body", HOPPER, WALKER, "--port", str(taken), cwd=tmp_path)
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
    port = first.split()[-1]
    assert first == f"port {taken} is in use; taking {port}\n"
    shown = re.fullmatch(rf"{policy.name} at (http://\S+) \(Ctrl-C stops it\)\n", second)
    assert shown is not None
    assert re.fullmatch(rf"http://127\.0\.0\.1:{port}/[\w-]{{32}}/", shown[1])
    page = urllib.request.urlopen(shown[1], timeout=60)
    assert b"<html" in page.read(2000)
    page.close()
    process.send_signal(how)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (out, errors) == ("", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="how browsers are found")
@pytest.mark.parametrize("opens", [True, False])
def test_the_browser_is_opened(tmp_path: Path, policy: Path, opens: bool) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.draft && mv {opened}.draft {opened}\n')
    browser.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "sgrl.cli", "view", policy, "--port", "8770"]
        + ["--no-open"] * (not opens),
        env={**os.environ, "BROWSER": str(browser), "DISPLAY": ":99"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    address = re.search(r"http://[\w.:]+/", said)
    assert address is not None, said
    end = time.monotonic() + 60
    while opens and not opened.exists() and time.monotonic() < end:
        time.sleep(0.05)
    if opens:
        page = urllib.request.urlopen(opened.read_text().strip(), timeout=60)
        assert page.geturl().startswith(address[0])
        assert f"<title>{policy.name} · sgrl</title>".encode() in page.read()
        page.close()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert opened.exists() == opens


def test_another_address_is_warned_of(tmp_path: Path) -> None:
    process = started("random", "--host", "0.0.0.0", "--port", "8790", cwd=tmp_path)
    assert process.stderr is not None
    warning = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert warning.startswith("sgrl: warning: 0.0.0.0 can be reached from other machines")
    assert "whoever has the address can use the page" in warning


def test_replay(
    tmp_path: Path, policy: Path, run: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ("--body", HOPPER, WALKER, "--seconds", "0.4", "-o", "new/out.html")
    assert run("replay", policy, *wanted) == ""
    assert capsys.readouterr().out == f"wrote new/out.html: 10 frames of {policy.name}\n"
    page = (tmp_path / "new" / "out.html").read_text(encoding="utf-8")
    assert "__VISER_EMBED_DATA__" in page
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_video(
    policy: Path, run: Callable[..., str], capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    wanted = ("--body", HOPPER, WALKER, "--seconds", "0.8", "--size", "64", "-o", f"out{suffix}")
    assert run("video", policy, *wanted) == ""
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"wrote out{suffix}: 0.8 s of {policy.name}"
    for body, line in zip((HOPPER, WALKER), said[1:], strict=True):
        assert re.fullmatch(rf"{policy.name} on {body}: \d falls?, 0 targets reached", line)
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(f"out{suffix}")
    assert frames == 20
    assert seconds == pytest.approx(0.8, abs=0.05)


def test_a_random_policy_needs_no_run(
    run: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("video", "random", "--seconds", "0.08", "--size", "64") == ""
    assert capsys.readouterr().out.startswith("wrote video.mp4: 0.08 s of random actions\n")
    assert Path("video.mp4").stat().st_size > 500


def test_policies_side_by_side_with_clicks(
    policy: Path, run: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ("--bodies", HOPPER, "--seconds", "0.4", "--clicks", "2", "--size", "64")
    assert run("video", "random", policy, *wanted) == ""
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"wrote video.mp4: 0.4 s of random actions beside {policy.name}"
    assert [line.split(":")[0] for line in said[1:]] == [
        f"random actions on {HOPPER}",
        f"{policy.name} on {HOPPER}",
    ]
    assert all(line.endswith("reached, 2 clicks") for line in said[1:])


def test_without_opengl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "disable")
    done = sgrl("video", "random", "--seconds", "0.1", cwd=tmp_path)
    assert_one_line_error(done, 1, "no OpenGL", "apt-get install libegl1")
    assert not list(tmp_path.iterdir())
    done = sgrl("replay", "random", "--seconds", "0.1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    process = started("random", "--port", "8795", cwd=tmp_path)
    assert process.stdout is not None
    assert "http://127.0.0.1:" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["view", "replay"])
def test_without_viser(tmp_path: Path, command: str) -> None:
    script = "import sys; sys.modules['viser'] = None; import sgrl.cli; sgrl.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", script, command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert_one_line_error(done, 1, "pip install 'sgrl[viewer]'")
    assert not list(tmp_path.iterdir())


def test_the_command_line_needs_neither_viser_nor_torch(tmp_path: Path) -> None:
    script = "import sys, sgrl.cli; print(sorted({'viser', 'torch', 'trimesh'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("command", ["view", "replay", "video"])
def test_policies_say_which_bodies_they_can_drive(
    tmp_path: Path, monolithic: Path, run: Callable[..., str], command: str
) -> None:
    said = run(command, monolithic, "--body", WALKER)
    assert said == f"sgrl: {monolithic.name} can't drive {WALKER}; it can drive {HOPPER}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("view", "runs/none"), ("there is no run runs/none",)),
        (("view", "random", "--body", "3d_cheeta_14_full"), ("did you mean 3d_cheetah_14_full",)),
        (("view", "random", "--body", "3d_cwhh++"), ("1 to 8 bodies at once, not 23",)),
        (("view", "random", "--port", "70000"), ("from 1 to 65535, not 70000",)),
        (("view", "random", "--host", "192.0.2.7"), ("can't listen on 192.0.2.7",)),
        (("replay", "random", "--seconds", "0"), ("--seconds must be more than 0",)),
        (("replay", "random", "--seconds", "nan"), ("--seconds must be more than 0",)),
        (("replay", "random", "-o", "out.mp4"), ("out.mp4: a replay is an .html file",)),
        (("video", "random", "--seconds", "1e9"), ("at most 600",)),
        (("video", "random", "--size", "33"), ("an even number from 32 to 2048, not 33",)),
        (("video", "random", "-o", "out.avi"), ("out.avi: a video is one of .mp4, .gif",)),
    ],
)
def test_what_can_not_be_done_is_said(
    tmp_path: Path, run: Callable[..., str], arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    said = run(*arguments)
    assert said.startswith("sgrl: ")
    for word in words:
        assert word in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("view", ("[RUN]", "--bodies", "--body", "--port", "--host", "--no-open")),
        ("replay", ("[RUN]", "--bodies", "--body", "--out", "-o", "--seconds")),
        ("video", ("[RUN ...]", "--bodies", "--body", "--out", "-o", "--seconds", "--size")),
    ],
)
def test_help(
    run: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    command: str,
    words: tuple[str, ...],
) -> None:
    assert run(command, "--help") == "0"
    said = capsys.readouterr().out
    for word in words:
        assert word in said
