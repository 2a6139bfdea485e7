"""Videos: what can be seen in each frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sgrl.morphology import FAMILIES, get_body
from sgrl.viewer.driver import RandomDriver
from sgrl.viewer.simulation import Simulation
from sgrl.viewer.video import FPS, captioned, rollout_frames
from tests.viewer.drivers import Still

Frame = NDArray[np.uint8]
SIZE = 128
CHEETAH, HUMANOID = "3d_cheetah_14_full", "3d_humanoid_9_full"


def colored(frame: Frame, family: str) -> NDArray[np.bool_]:
    """Pixels of a family's hue in any light, (height, width)."""
    pixels = frame.astype(float) / 255
    hue = pixels - pixels.mean(axis=-1, keepdims=True)
    wanted = np.array(FAMILIES[family].color[:3])
    wanted = wanted - wanted.mean()
    likeness = hue @ wanted / (np.linalg.norm(hue, axis=-1) * np.linalg.norm(wanted) + 1e-9)
    return (likeness > 0.95) & (np.ptp(pixels, axis=-1) > 0.15)


def test_the_robot_is_in_every_frame() -> None:
    """Random actions throw it about, and it gets up elsewhere; the camera goes with it."""
    frames = list(rollout_frames(Simulation(RandomDriver(), [get_body(CHEETAH)]), 2.0, size=SIZE))
    assert len(frames) == 2 * FPS
    for frame in frames:
        assert frame.shape == (SIZE, SIZE, 3)
        assert frame.std() > 10, "not blank"
        rows, columns = np.nonzero(colored(frame, "cheetah"))
        assert len(rows) > 60
        assert 0.2 * SIZE < rows.mean() < 0.8 * SIZE
        assert 0.2 * SIZE < columns.mean() < 0.8 * SIZE
    assert np.abs(frames[-1].astype(int) - frames[0]).mean() > 1, "it moves"


def test_several_bodies_are_tiled() -> None:
    bodies = [get_body(CHEETAH), get_body(HUMANOID), get_body("3d_walker_7_full").cut("left_foot")]
    (frame,) = rollout_frames(Simulation(Still(), bodies), 0.01, size=SIZE)  # one at least
    assert frame.shape == (2 * SIZE, 2 * SIZE, 3)
    for place, family in enumerate(("cheetah", "humanoid", "walker")):
        y, x = place // 2 * SIZE, place % 2 * SIZE
        assert colored(frame[y : y + SIZE, x : x + SIZE], family).sum() > 60
    assert not frame[SIZE:, SIZE:].any()


def test_speed_and_return_are_written_in() -> None:
    (robot,) = Simulation(Still(), [get_body(CHEETAH)]).robots
    blank = np.full((256, 256, 3), 90, np.uint8)
    written = []
    for speed, total in ((0.0, 0.0), (0.0, 0.0), (3.0, 0.0), (0.0, 71.0)):
        robot.speed, robot.total = speed, total
        written.append(captioned(blank, robot))
    first, same, faster, richer = written
    assert np.array_equal(first, same)
    assert first.max() > 200
    assert np.array_equal(first[:200], blank[:200]), "only below"
    for other in (faster, richer):
        assert (other != first).any()
    assert (faster != richer).any()
    assert (blank == 90).all()


def test_the_way_to_the_target_is_drawn() -> None:
    (frame,) = rollout_frames(Simulation(Still(), [get_body(CHEETAH)], seed=1), 1 / FPS, size=256)
    pixels = frame.astype(int)
    red = (pixels[..., 0] > 120) & (pixels[..., 1:].max(axis=-1) < 0.5 * pixels[..., 0])
    assert red.sum() > 20
