"""Reaching Ray: started on this machine or found at an address, quiet either way."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STORE_BYTES = 100_000_000
"""Shared memory of a Ray that is started here, at least."""
PATIENCE = 3.0
"""Seconds for a cluster to answer; Ray itself would try for minutes."""

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to anyone
    "RAY_worker_niceness": "0",  # as urgent as whoever waits for them: Ray would say 15
}
"""What a Ray that is started here is told."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
"""With which HTTP/2 begins: its preface, and settings that change nothing."""


def require_ray(why: str) -> Any:
    """The package, which is an extra; ValueError says how to get it."""
    if importlib.util.find_spec("ray") is None:
        raise ValueError(f"{why} needs the ray package: pip install 'sgrl[ray]'")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    return importlib.import_module("ray")


@contextmanager
def connected(
    address: str | None, *, cores: int, store: int = STORE_BYTES, why: str = "this"
) -> Iterator[Any]:
    """Ray, connected to the cluster at an address, HOST:PORT, or to one that lives as long as this.

    `cores` and `store`, in bytes, are of one that is started here. A process that is connected
    already stays so. ConnectionError, within seconds, if the cluster cannot be reached.
    """
    ray = require_ray(why)
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        with _private():
            ray.init(
                address="local",  # not what RAY_ADDRESS says
                num_cpus=cores,
                object_store_memory=max(store, STORE_BYTES),
                include_dashboard=False,
                **quiet,
            )
    else:
        check_reachable(address)
        try:
            ray.init(address=address, **quiet)
        except (OSError, RuntimeError, ray.exceptions.AuthenticationError) as error:
            reason = str(error).splitlines()[0]
            raise ConnectionError(
                f"cannot join the Ray cluster at {address}: {reason}; one with a token needs "
                f"RAY_AUTH_MODE=token and the same RAY_AUTH_TOKEN here"
            ) from None
    try:
        yield ray
    finally:
        ray.shutdown()
        _read_token_settings()


@contextmanager
def _private() -> Iterator[None]:
    """A Ray that is started meanwhile is bound to this machine, and wants a token.

    The token is made for it and lies in no file.
    """
    from ray._private import ray_constants

    networked, before = ray_constants.ENABLE_RAY_CLUSTER, dict(os.environ)
    # Read when Ray is imported, here, and by the processes that it starts.
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ |= {
        ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    _read_token_settings()
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = networked
        os.environ.clear()
        os.environ.update(before)


def _read_token_settings() -> None:
    """Let Ray read the environment again, whose token and mode it keeps for the process."""
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def check_reachable(address: str) -> None:
    """ConnectionError unless something that speaks Ray's protocol answers soon."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"a cluster's address is HOST:PORT of its head node, not {address!r}")
    try:
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            connection.settimeout(PATIENCE)
            connection.sendall(GREETING)
            answer = connection.recv(4)
    except (OSError, OverflowError) as error:
        raise ConnectionError(
            f"no Ray cluster can be reached at {address} ({error}); start one with "
            f"ray start --head, which prints its address"
        ) from None
    if answer[3:] != b"\x04":  # the other side's settings
        raise ConnectionError(f"what answers at {address} is not a Ray cluster")
