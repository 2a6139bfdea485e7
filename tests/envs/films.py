"""Reading videos."""

from __future__ import annotations

import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray


def decoded(path: Path, height: int, width: int) -> NDArray[np.uint8]:
    """The frames of a video, by ffmpeg itself."""
    raw = ("-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
    command = (imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path), *raw)
    done = subprocess.run(command, capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)
