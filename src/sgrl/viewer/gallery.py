"""All bodies in one picture, with their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sgrl.envs.rendering import FrameRenderer
from sgrl.files import writable
from sgrl.morphology import TABLE, Morphology, compile_model, get_body
from sgrl.viewer.shapes import lowest_point

TILE = 320
"""Pixels along each side of one body's picture."""
COLUMNS = 6
CAPTION = 26
STRIDE = 0.45
"""Radians of a stride."""


def portrait(body: Morphology, size: int = TILE) -> NDArray[np.uint8]:
    """A body at rest on the ground, (size, size, 3)."""
    model = compile_model(body)
    data = mujoco.MjData(model)
    if "left_thigh" in body.limb_names:
        # One leg forward, or the two of a walker would be one behind the other.
        data.joint("left_thigh_joint_y").qpos[0] = STRIDE
    mujoco.mj_forward(model, data)
    # Stand it on the ground: some bodies start in the air.
    data.qpos[2] -= max(0.0, lowest_point(model, data))
    mujoco.mj_forward(model, data)
    renderer = FrameRenderer(model, size, size)
    renderer.camera.distance = 1.5 + 1.1 * float(data.xpos[1, 2])
    try:
        return renderer.frame(data)
    finally:
        renderer.close()


def write_gallery(
    path: Path, labels: Sequence[tuple[str, str]] | None = None, columns: int = COLUMNS
) -> None:
    """Write a PNG of `labels`: (body name, caption) each; by default the paper's 29 bodies."""
    if labels is None:
        labels = [
            (entry.name, entry.name + (" (zero-shot)" if entry.split == "zero_shot" else ""))
            for entry in TABLE
        ]
    rows = -(-len(labels) // columns)
    sheet = Image.new("RGB", (columns * TILE, rows * (TILE + CAPTION)), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=13)
    with writable(path) as target:
        for index, (name, caption) in enumerate(labels):
            x, y = index % columns * TILE, index // columns * (TILE + CAPTION)
            sheet.paste(Image.fromarray(portrait(get_body(name))), (x, y))
            draw.text((x + TILE / 2, y + TILE + CAPTION / 2), caption, "black", font, anchor="mm")
        sheet.save(target, format="PNG", optimize=True)
