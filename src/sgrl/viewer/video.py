"""Videos of rollouts: several bodies, or several policies, side by side."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TextIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sgrl.envs.recording import FORMATS, video_writer
from sgrl.envs.rendering import FrameRenderer
from sgrl.files import writable
from sgrl.viewer.robot import Robot
from sgrl.viewer.simulation import Simulation

T = TypeVar("T")
Frame = NDArray[np.uint8]
"""(height, width, 3)"""

FPS = 25
FALL_SHOWN = 0.8
"""Seconds for which a fall is marked."""
FALL_COLOR = (215, 35, 45)
FALL_TEXT = (255, 125, 120)
"""The same, to be read on the dark ground."""
LINE_SECONDS = 10.0
"""Between two lines that say how far it is, where there is no terminal."""


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
    *simulations: Simulation,
    seconds: float,
    size: int = 360,
    columns: int | None = None,
    before_frame: Callable[[], object] | None = None,
) -> Iterator[Frame]:
    """Frames of all robots acting in real time, tiled; who falls gets up again, and it is marked.

    Each tile is `size` pixels square; `columns` of them in a row, by default as in a square. Of
    several simulations each has a column, with the name of its policy on top. `before_frame` is
    called before time goes on to the next frame.
    """
    compared = len(simulations) > 1
    if compared:
        columns = len(simulations)
    with ExitStack() as stack:
        renderers = [
            [
                stack.enter_context(closing(FrameRenderer(robot.env.model, size, size, fast=True)))
                for robot in simulation.robots
            ]
            for simulation in simulations
        ]
        for count in range(count_frames(seconds)):
            if before_frame is not None:
                before_frame()
            tiles = []
            for simulation, own in zip(simulations, renderers, strict=True):
                if count:
                    simulation.advance(1 / FPS)
                title = simulation.driver.name if compared else ""
                tiles.append(
                    [
                        captioned(renderer.frame(robot.env.data, robot.env.target), robot, title)
                        for renderer, robot in zip(own, simulation.robots, strict=True)
                    ]
                )
            rows = [frame for row in zip(*tiles, strict=True) for frame in row]
            yield tile(rows, columns or math.ceil(math.sqrt(len(rows))))


def count_frames(seconds: float) -> int:
    """How many frames a video of this length has."""
    return max(1, round(seconds * FPS))


def captioned(frame: Frame, robot: Robot, title: str = "") -> Frame:
    """A frame with the body's name, its speed, return and falls written below, a title on top.

    A robot that has just fallen is framed in red, since it is up again at once.
    """
    image = Image.fromarray(frame)
    draw = ImageDraw.Draw(image)
    height = max(9, image.height // 26)
    font = ImageFont.load_default(size=height)

    def write(
        x: float, y: float, line: str, anchor: str, color: str | tuple[int, ...] = "white"
    ) -> None:
        draw.text((x, y), line, color, font, anchor=anchor, stroke_width=1, stroke_fill="black")

    falls = f"{robot.falls} fall{'' if robot.falls == 1 else 's'}"
    numbers = f"{robot.speed:.1f} m/s   return {robot.total:.0f}"
    if robot.is_at_target:
        numbers += "   reached"
    left, right, bottom = 0.6 * height, image.width - 0.6 * height, image.height - 1.1 * height
    write(left, bottom - 1.35 * height, robot.body.name, "lm")
    write(left, bottom, numbers, "lm")
    write(right, bottom, falls, "rm", FALL_TEXT if robot.falls else "white")
    if title:
        write(left, 1.1 * height, title, "lm")
    if robot.since_fall < FALL_SHOWN:
        edges = (0, 0, image.width - 1, image.height - 1)
        draw.rectangle(edges, outline=FALL_COLOR, width=max(2, height // 3))
        write(right, 1.1 * height, "fell", "rm", FALL_TEXT)
    return np.asarray(image)


def tile(frames: Sequence[Frame], columns: int) -> Frame:
    """Equal frames in a grid, black where there is none."""
    height, width, _ = frames[0].shape
    columns = min(columns, len(frames))
    rows = -(-len(frames) // columns)
    grid = np.zeros((rows * height, columns * width, 3), np.uint8)
    for index, frame in enumerate(frames):
        y, x = index // columns * height, index % columns * width
        grid[y : y + height, x : x + width] = frame
    return grid


def show_progress(
    items: Iterable[T], total: int, what: str, stream: TextIO | None = None
) -> Iterator[T]:
    """The items, saying on the way how many of them there were: a line that is written over on a
    terminal, a line every few seconds elsewhere."""
    stream = stream or sys.stderr
    start = shown = time.monotonic()
    live = stream.isatty()
    for count, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - shown > (0.2 if live else LINE_SECONDS) and count < total:
            shown = now
            left = (now - start) * (total - count) / count
            line = f"{what}: {count / total:.0%}, {left:.0f} s left"
            print(f"\r{line:<60}" if live else line, end="" if live else "\n", file=stream)
            stream.flush()
    if live:
        print(f"\r{'':<60}\r", end="", file=stream, flush=True)
