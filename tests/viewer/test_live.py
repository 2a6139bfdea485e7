"""`sgrl.view`: a viewer from Python."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("viser")
import sgrl
from tests.training.untrained import HOPPER, untrained_run


def test_a_viewer_in_the_background(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = untrained_run(tmp_path)
    viewer = sgrl.view(
        sgrl.load_policy(run.path), [HOPPER], port=8760, open_browser=False, block=False
    )
    try:
        assert capsys.readouterr().out == f"run at {viewer.url}\n"
        assert [robot.body.name for robot in viewer.simulation.robots] == [HOPPER]
        with urllib.request.urlopen(viewer.url, timeout=60) as page:
            assert b"<title>run \xc2\xb7 sgrl</title>" in page.read(5000)
        assert viewer.url in viewer._repr_html_()
    finally:
        viewer.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(viewer.url, timeout=5)


def test_a_viewer_of_a_script_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is interrupted."""
    interrupt = threading.Event()

    def serve(page: object, stop: threading.Event) -> None:
        assert not stop.is_set()
        interrupt.set()
        raise KeyboardInterrupt

    monkeypatch.setattr("sgrl.viewer.live_page.Page.run", serve)
    sgrl.view("random", port=8765, open_browser=False, block=True)
    assert interrupt.is_set()
