"""Videos of rollouts, several bodies side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sgrl.envs.recording import FORMATS, video_writer
from sgrl.envs.rendering import FrameRenderer
from sgrl.files import writable
from sgrl.viewer.robot import Robot
from sgrl.viewer.simulation import Simulation

Frame = NDArray[np.uint8]

FPS = 25


def write_video(path: Path, frames: Iterable[Frame], fps: int = FPS) -> int:
    """Write frames as .mp4 or .gif; returns how many there were."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: a video is one of {', '.join(FORMATS)}")
    count = 0
    with writable(path) as target, closing(video_writer(target, fps)) as writer:
        for frame in frames:
            writer.append_data(frame)
            count += 1
    return count


def rollout_frames(
    simulation: Simulation, seconds: float, *, size: int = 360, columns: int | None = None
) -> Iterator[Frame]:
    """Frames of all robots acting in real time, tiled; who falls gets up again.

    Each tile is `size` pixels square; `columns` of them in a row, by default as in a square.
    """
    renderers: list[FrameRenderer] = []
    try:
        for robot in simulation.robots:
            renderers.append(FrameRenderer(robot.env.model, size, size))
        for count in range(max(1, round(seconds * FPS))):
            if count:
                simulation.advance(1 / FPS)
            tiles = [
                captioned(renderer.frame(robot.env.data, robot.env.target), robot)
                for renderer, robot in zip(renderers, simulation.robots, strict=True)
            ]
            yield tile(tiles, columns or math.ceil(math.sqrt(len(tiles))))
    finally:
        for renderer in renderers:
            renderer.close()


def captioned(frame: Frame, robot: Robot) -> Frame:
    """A frame with the body's name, its speed and the return so far written below."""
    image = Image.fromarray(frame)
    draw = ImageDraw.Draw(image)
    height = max(9, image.height // 26)
    font = ImageFont.load_default(size=height)
    lines = (robot.body.name, f"{robot.speed:.1f} m/s   return {robot.total:.0f}")
    for place, line in enumerate(reversed(lines)):
        y = image.height - (place + 0.8) * 1.35 * height
        draw.text(
            (0.6 * height, y), line, "white", font, anchor="lm", stroke_width=1, stroke_fill="black"
        )
    return np.asarray(image)


def tile(frames: Sequence[Frame], columns: int) -> Frame:
    """Equal frames in a grid, black where there is none."""
    height, width, _ = frames[0].shape
    columns = min(columns, len(frames))
    rows = -(-len(frames) // columns)
    grid = np.zeros((rows * height, columns * width, 3), np.uint8)
    for place, frame in enumerate(frames):
        y, x = place // columns * height, place % columns * width
        grid[y : y + height, x : x + width] = frame
    return grid
