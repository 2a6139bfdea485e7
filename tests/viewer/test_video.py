"""Videos: what can be seen in each frame."""

from __future__ import annotations

import io

import numpy as np
import pytest
from numpy.typing import NDArray

from sgrl.morphology import FAMILIES, get_body
from sgrl.viewer.driver import RandomDriver
from sgrl.viewer.simulation import Simulation
from sgrl.viewer.video import FALL_COLOR, FPS, captioned, rollout_frames, show_progress
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
    frames = list(
        rollout_frames(Simulation(RandomDriver(), [get_body(CHEETAH)]), seconds=2.0, size=SIZE)
    )
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
    (frame,) = rollout_frames(Simulation(Still(), bodies), seconds=0.01, size=SIZE)  # one at least
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
    (frame,) = rollout_frames(
        Simulation(Still(), [get_body(CHEETAH)], seed=1), seconds=1 / FPS, size=256
    )
    pixels = frame.astype(int)
    red = (pixels[..., 0] > 120) & (pixels[..., 1:].max(axis=-1) < 0.5 * pixels[..., 0])
    assert red.sum() > 20


def test_a_fall_is_marked_and_counted() -> None:
    simulation = Simulation(Still(), [get_body(HUMANOID)])
    (robot,) = simulation.robots
    blank = np.full((256, 256, 3), 90, np.uint8)
    standing = captioned(blank, robot)
    assert not (standing[0] == FALL_COLOR).all(axis=-1).any()
    robot.fall()
    fallen = captioned(blank, robot)
    for edge in (fallen[0], fallen[-1], fallen[:, 0], fallen[:, -1]):
        assert (edge == FALL_COLOR).all()
    robot.since_fall = 1.0
    later = captioned(blank, robot)
    assert not (later[0] == FALL_COLOR).all(axis=-1).any()
    assert (later != standing)[:, 128:].any(), "the number of falls"


def test_policies_side_by_side() -> None:
    """A column each, the same starts, and each policy's name on top."""
    bodies = [get_body(CHEETAH), get_body(HUMANOID)]
    still, random = Simulation(Still(), bodies), Simulation(RandomDriver(), bodies)
    frames = list(rollout_frames(still, random, seconds=0.4, size=SIZE))
    first, last = frames[0], frames[-1]
    assert first.shape == (2 * SIZE, 2 * SIZE, 3)
    middle = slice(SIZE // 4, 3 * SIZE // 4)
    for row, family in enumerate(("cheetah", "humanoid")):
        tiles = first[row * SIZE : (row + 1) * SIZE]
        assert colored(tiles[:, :SIZE], family).sum() > 60
        assert np.array_equal(tiles[middle, :SIZE], tiles[middle, SIZE:]), "the same start"
        assert (tiles[: SIZE // 6, :SIZE] != tiles[: SIZE // 6, SIZE:]).any(), "other names"
    assert (last[middle, :SIZE] != last[middle, SIZE:]).any()


def test_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgrl.viewer.video.LINE_SECONDS", -1.0)
    said = io.StringIO()
    assert list(show_progress(range(4), 4, "out.mp4", said)) == [0, 1, 2, 3]
    lines = said.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == [f"out.mp4: {n}%" for n in (25, 50, 75)]
    assert lines[0].endswith("s left")
