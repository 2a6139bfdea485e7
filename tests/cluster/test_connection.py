"""What is said where there is no Ray, or none where it should be."""

from __future__ import annotations

import importlib.util
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sgrl.cli.reproduce import reproduce_command
from sgrl.cluster import connection
from sgrl.cluster.connection import check_reachable
from sgrl.cluster.jobs import RayRunner
from sgrl.training.loop import train
from sgrl.training.settings import resolve_settings

from .small import SMALL


@pytest.fixture
def nobody() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def web_server() -> Iterator[str]:
    """An address at which something answers that is not Ray."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            caller, _ = server.accept()
            with caller:
                caller.recv(100)
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_nobody_there(nobody: str, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ConnectionError, match=f"no Ray cluster can be reached at {nobody}"):
        RayRunner(nobody)
    with pytest.raises(ConnectionError, match=f"no Ray cluster can be reached at {nobody}"):
        train(replace(SMALL, runs=tmp_path, rollout_workers=2, cluster=nobody))
    assert time.monotonic() - began < 30  # Ray's own attempts take minutes
    assert list(tmp_path.iterdir()) == []


def test_a_grid_for_nobody(nobody: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=f"no Ray cluster can be reached at {nobody}"):
        reproduce_command("bias", budget="smoke", cluster=nobody, runs=tmp_path, out=tmp_path / "o")
    with pytest.raises(ValueError, match="processes are for this machine"):
        reproduce_command("bias", budget="smoke", cluster=nobody, processes=2, runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_somebody_else_there(web_server: str) -> None:
    with pytest.raises(ConnectionError, match="not a Ray cluster"):
        check_reachable(web_server)


def test_somebody_silent_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ConnectionError, match="timed out"),
    ):
        check_reachable(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "ray://"])
def test_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        RayRunner(address)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"--cluster needs the ray package.*sgrl\[ray\]"):
        RayRunner("127.0.0.1:6379")
    with pytest.raises(ValueError, match=r"--rollout-workers needs the ray package.*sgrl\[ray\]"):
        resolve_settings(replace(SMALL, rollout_workers=1))
