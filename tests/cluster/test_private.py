"""A Ray that is started here is this machine's, and wants a token that is in no file.

In processes of their own: those of the other tests are on a cluster that has no token.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OWNER = """
import os, sys
from sgrl.cluster.connection import connected

with connected(None, cores=1) as ray:
    assert "RAY_AUTH_TOKEN" not in os.environ
    assert ray.get(ray.remote(lambda: 3).remote()) == 3
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
"""
STRANGER = """
import sys
from sgrl.cluster.connection import connected

try:
    with connected(sys.argv[1], cores=0) as ray:
        print("joined")
except ConnectionError as error:
    print(error)
"""
LISTENING = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same in IPv6, and ::1, as /proc writes them."""


def addresses_of(session: int) -> list[str]:
    """Where processes of a session listen."""
    inodes = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == session:
                inodes |= {os.readlink(file) for file in (process / "fd").iterdir()}
        except OSError:
            continue  # it has ended
    rows = [
        row.split()
        for file in ("/proc/net/tcp", "/proc/net/tcp6")
        for row in Path(file).read_text().splitlines()[1:]
    ]
    return [
        row[1].partition(":")[0]
        for row in rows
        if row[3] == LISTENING and f"socket:[{row[9]}]" in inodes
    ]


def test_a_ray_of_our_own_is_for_this_machine_and_its_token(tmp_path: Path) -> None:
    # In a home of its own, to see that the token is in no file.
    environment = os.environ | {"HOME": str(tmp_path)}
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        environment.pop(name, None)
    owner = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        text=True,
    )
    try:
        assert owner.stdout is not None
        address = owner.stdout.readline().strip()
        assert address.startswith("127.0.0.1:")
        listening = addresses_of(owner.pid)
        assert len(listening) > 3
        assert set(listening) <= LOOPBACK
        # Ray itself takes an address of this machine for that of its network without the switch.
        stranger = environment | {
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_NUM_REDIS_GET_RETRIES": "1",
        }
        for more in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "guessed"}):
            said = subprocess.run(
                [sys.executable, "-c", STRANGER, address],
                env=stranger | more,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert "cannot join the Ray cluster" in said.stdout, said.stderr
            assert "the same RAY_AUTH_TOKEN" in said.stdout
            assert "InvalidAuthToken" in said.stderr
    finally:
        owner.communicate("")
    assert owner.returncode == 0
    assert list(tmp_path.iterdir()) == []


TURNS = """
import os, sys
from sgrl.cluster.connection import connected

for address in (sys.argv[1], None, sys.argv[1], None):
    with connected(address, cores=1) as ray:
        assert ray.get(ray.remote(lambda: 3).remote()) == 3
    assert not [name for name in os.environ if name.startswith("RAY_AUTH")]
print("joined all")
"""


@pytest.mark.nightly
def test_a_process_that_had_its_own_joins_another(cluster: Any) -> None:
    """And the other way around: Ray keeps tokens, and whether there are any, for a process."""
    said = subprocess.run(
        [sys.executable, "-c", TURNS, cluster.address],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "joined all" in said.stdout, said.stderr
