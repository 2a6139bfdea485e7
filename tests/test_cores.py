"""Whether there are cores to spare."""

from __future__ import annotations

import os

import pytest

from sgrl.cores import cores_are_busy, count_cores


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="there is no load to read")
def test_cores_are_busy_when_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for load, busy in ((0.0, False), (0.2, False), (0.9, True), (3.0, True)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load * count_cores(), 0.0, 0.0))
        assert cores_are_busy() == busy
