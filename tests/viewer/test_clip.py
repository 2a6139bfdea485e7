"""`sgrl.video`: a rollout from Python, shown inline by a notebook."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path

import imageio_ffmpeg
import pytest

import sgrl
from tests.training.untrained import HOPPER, untrained_run


def test_a_notebook_shows_the_video_itself(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path)
    clip = sgrl.video(["random", run.path], [HOPPER], seconds=0.4, size=64)
    assert list(clip.falls) == [f"random actions on {HOPPER}", f"run on {HOPPER}"]
    shown = clip._repr_html_()
    assert "random actions beside run" in shown
    (data,) = re.findall(r'src="data:video/mp4;base64,([^"]+)"', shown)
    assert b64decode(data) == clip.mp4
    clip.save(tmp_path / "new" / "clip.mp4")
    frames, _ = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "new" / "clip.mp4"))
    assert frames == 10
    with pytest.raises(ValueError, match=r"saved as \.mp4"):
        clip.save("clip.avi")
