"""What can be seen: frames, the window on a screen, pictures and videos."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import sgrl
from sgrl.envs.rendering import CAMERA_AZIMUTH, POLE_DISTANCE, TARGET_COLOR
from sgrl.morphology import FAMILIES, get_body, resolve_bodies
from sgrl.viewer.driver import RandomDriver
from sgrl.viewer.gallery import CAPTION, TILE, write_gallery
from sgrl.viewer.simulation import Simulation
from sgrl.viewer.video import FPS, rollout_frames, tile, write_video

from .films import decoded

Frame = NDArray[np.uint8]

SIZE = 160
"""Pixels along each side: rendering without a graphics card is slow."""
WALKER = "3d_walker_7_full"
GREEN = FAMILIES["walker"].color
_AZIMUTH = np.deg2rad(CAMERA_AZIMUTH)
RIGHT = np.array([np.sin(_AZIMUTH), -np.cos(_AZIMUTH)])
"""The direction on the ground that is to the right in the picture."""


def colored(frame: Frame, color: tuple[float, ...]) -> NDArray[np.bool_]:
    """Pixels of this hue in any light, (height, width); the floor and the sky are too pale."""
    pixels = frame.astype(float) / 255
    hue = pixels - pixels.mean(axis=-1, keepdims=True)
    wanted = np.array(color[:3]) - np.mean(color[:3])
    likeness = hue @ wanted / (np.linalg.norm(hue, axis=-1) * np.linalg.norm(wanted) + 1e-9)
    saturation = np.ptp(pixels, axis=-1) / (pixels.max(axis=-1) + 1e-9)
    return (likeness > 0.95) & (saturation > 0.4)


def middle(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The middle half of a picture, in both directions."""
    height, width = mask.shape
    return mask[height // 4 : -height // 4, width // 4 : -width // 4]


@contextmanager
def walker(variant: str = "v1", body: str = WALKER) -> Iterator[gymnasium.Env]:
    env = sgrl.make_env(body, variant=variant, render_mode="rgb_array", width=SIZE, height=SIZE)
    try:
        yield env
    finally:
        env.close()


def frame_at(env: gymnasium.Env, **options: object) -> Frame:
    env.reset(seed=0, options={"yaw": 0.0} | options if "qpos" not in options else options)
    return env.render()


def rest_at(env: gymnasium.Env, x: float, y: float) -> NDArray[np.float64]:
    qpos = env.unwrapped.model.qpos0.copy()
    qpos[:2] = x, y
    return qpos


def without_screen() -> dict[str, str]:
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "PYOPENGL_PLATFORM")
    return {key: value for key, value in os.environ.items() if key not in hidden}


def run_python(script: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_frame_shows_the_robot(family: str) -> None:
    with walker(body=FAMILIES[family].body.name) as env:
        env.reset(seed=0)
        frame = env.render()
        assert frame.shape == (SIZE, SIZE, 3)
        assert frame.dtype == np.uint8
        assert middle(colored(frame, FAMILIES[family].color)).mean() > 0.005
        env.step(np.ones(env.action_space.shape, np.float32))
        later = env.render()
        assert not np.shares_memory(frame, later)
        assert (frame != later).any()


def test_frames_through_gymnasium_are_of_the_size_asked_for() -> None:
    env = gymnasium.make("sgrl/3d_hopper_3_shin-v2", render_mode="rgb_array", width=96, height=64)
    env.reset(seed=0)
    assert env.render().shape == (64, 96, 3)
    assert env.metadata["render_fps"] == 125
    env.close()


def test_frames_larger_than_mujocos_default_buffer() -> None:
    env = sgrl.make_env(WALKER, render_mode="rgb_array", width=900, height=500)
    env.reset(seed=0)
    assert env.render().shape == (500, 900, 3)
    env.close()


def test_vector_frames_show_each_copy() -> None:
    names = (WALKER, "3d_humanoid_9_full")
    env = sgrl.make_vec(names, 2, render_mode="rgb_array", width=SIZE, height=SIZE)
    env.reset(seed=0)
    frames = env.render()
    assert len(frames) == env.num_envs == 4
    for frame, family in zip(frames, ("walker", "walker", "humanoid", "humanoid"), strict=True):
        assert frame.shape == (SIZE, SIZE, 3)
        assert frame.dtype == np.uint8
        assert middle(colored(frame, FAMILIES[family].color)).mean() > 0.005
    assert (frames[0] != frames[1]).any(), "two starts, two pictures"
    env.close()
    env.close()


def test_a_vector_draws_what_the_single_environment_draws() -> None:
    vector = sgrl.make_vec(WALKER, 2, render_mode="rgb_array", width=SIZE, height=SIZE)
    vector.reset(seed=7)
    with walker() as single:
        single.reset(seed=8)
        for _ in range(3):
            action = np.full(single.action_space.shape, 0.5, np.float32)
            single.step(action)
            vector.step(np.stack([action, action]))
        # Two renderers may round a pixel differently.
        difference = vector.render()[1].astype(int) - single.render()
        assert np.abs(difference).max() <= 2
    vector.close()


def test_the_camera_follows() -> None:
    with walker() as env:
        for x, y in ((0.0, 0.0), (30.0, 0.0), (-20.0, 25.0), (2000.0, 0.0)):
            frame = frame_at(env, qpos=rest_at(env, x, y))
            assert middle(colored(frame, GREEN)).mean() > 0.005, (x, y)


def test_the_ground_shows_motion() -> None:
    with walker() as env:
        here, there = (frame_at(env, qpos=rest_at(env, x, 0.3)) for x in (0.0, 0.5))
        far = frame_at(env, qpos=rest_at(env, 40.5, 0.3))
    # The robot is in the same place of the picture; what moved is the floor's squares.
    assert (colored(here, GREEN) == colored(there, GREEN)).mean() > 0.99
    moved = (np.abs(here.astype(int) - there).max(axis=-1) > 5)[SIZE // 2 :]
    assert moved.mean() > 0.2
    assert np.abs(there.astype(int) - far)[SIZE // 2 :].mean() < 3, "the same squares everywhere"


def test_a_near_target_is_a_pole() -> None:
    # Ten metres into the picture: to the left of the robot, and nothing else red is so high.
    into = np.array([np.cos(_AZIMUTH), np.sin(_AZIMUTH)])
    with walker("v2") as env:
        for side in (-1.5, 1.5):
            red = colored(frame_at(env, target=7 * into + side * RIGHT), TARGET_COLOR)
            ys, xs = np.nonzero(red[: SIZE // 2])
            assert len(xs) > 5
            assert (np.sign(xs - SIZE / 2) == np.sign(side)).all()
            assert np.ptp(ys) > 3 * np.ptp(xs), "upright"
        far = frame_at(env, target=2 * POLE_DISTANCE * into)
        assert not colored(far, TARGET_COLOR)[: SIZE // 2].any()


@pytest.mark.parametrize("distance", [30.0, 10_000.0])
def test_an_arrow_points_to_the_target(distance: float) -> None:
    with walker() as env:
        for side in (-1, 1):
            red = colored(frame_at(env, target=side * distance * RIGHT), TARGET_COLOR)
            _, xs = np.nonzero(red)
            assert len(xs) > 10
            assert (np.sign(xs - SIZE / 2) == side).all()


def test_every_first_target_is_visible() -> None:
    with walker("v2") as env:
        for seed in range(5):
            env.reset(seed=seed)
            assert colored(env.render(), TARGET_COLOR).sum() > 5, seed


def test_rendering_does_not_change_the_simulation() -> None:
    with walker() as seen:
        unseen = sgrl.make_env(WALKER)
        seen.reset(seed=3)
        unseen.reset(seed=3)
        rng = np.random.default_rng(0)
        for _ in range(10):
            action = rng.uniform(-1, 1, seen.action_space.shape)
            after, *_ = seen.step(action)
            seen.render()
            assert np.array_equal(after, unseen.step(action)[0])
        floor = seen.unwrapped.model.geom("floor").size
        assert np.array_equal(floor, unseen.unwrapped.model.geom("floor").size)


def test_closing_twice_and_rendering_again() -> None:
    with walker() as env:
        env.reset(seed=0)
        first = env.render()
        env.close()
        env.close()
        assert np.array_equal(env.render(), first)
    env.close()


@pytest.mark.parametrize("mode", ["depth_array", "", "RGB_ARRAY"])
def test_unknown_render_modes_are_refused(mode: str) -> None:
    with pytest.raises(ValueError, match=r"unknown render_mode.*rgb_array"):
        sgrl.make_env(WALKER, render_mode=mode)
    with pytest.raises(ValueError, match=r"unknown render_mode.*rgb_array"):
        sgrl.make_vec(WALKER, 2, render_mode=mode)


def test_a_vector_has_no_window() -> None:
    with pytest.raises(ValueError, match="unknown render_mode 'human'"):
        sgrl.make_vec(WALKER, 2, render_mode="human")


def test_render_without_a_mode_says_what_to_do() -> None:
    env = sgrl.make_env(WALKER)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="rgb_array"):
        assert env.render() is None
    vector = sgrl.make_vec(WALKER, 2)
    vector.reset(seed=0)
    with pytest.warns(UserWarning, match="rgb_array"):
        assert vector.render() is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="EGL is for Linux")
@pytest.mark.parametrize("imports", ["import sgrl", "import mujoco, sgrl"])
def test_egl_is_picked_without_a_screen(imports: str) -> None:
    script = f"""{imports}
env = sgrl.make_env("{WALKER}", render_mode="rgb_array", width=64, height=64)
env.reset(seed=0)
frame = env.render()
env.close()
print(frame.shape, len(set(frame.ravel().tolist())) > 20)
"""
    done = run_python(script, without_screen())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "(64, 64, 3) True"
    assert done.stderr == ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is a screen")
def test_a_window_without_a_screen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(RuntimeError, match=r'needs a screen.*render_mode="rgb_array"'):
        sgrl.make_env(WALKER, render_mode="human").reset(seed=0)


@pytest.fixture
def screen() -> Iterator[dict[str, str]]:
    """The environment variables of a real X server without a monitor."""
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed (Debian: apt-get install xvfb)")
    ours, theirs = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(theirs), "-screen", "0", "640x480x24", "-nolisten", "tcp"],
        pass_fds=[theirs],
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    try:
        with os.fdopen(ours) as numbers:
            number = numbers.readline().strip()
        assert number, "Xvfb did not start"
        yield without_screen() | {"DISPLAY": f":{number}"}
    finally:
        server.terminate()
        server.wait()


WINDOW_SCRIPT = f"""
import sgrl
env = sgrl.make_env("{WALKER}", variant="v2", render_mode="human")
unseen = sgrl.make_env("{WALKER}", variant="v2")
assert (env.reset(seed=0)[0] == unseen.reset(seed=0)[0]).all()
action = env.action_space.sample()
for _ in range(10):
    assert (env.step(action)[0] == unseen.step(action)[0]).all(), "a window changes nothing"
assert env.render() is None
env.reset(seed=1)
env.step(action)
CLOSE
print("done")
"""


@pytest.mark.parametrize("close", ["env.close(); env.close()", ""], ids=["closed", "left_open"])
def test_a_window_on_a_screen(screen: dict[str, str], close: str) -> None:
    done = run_python(WINDOW_SCRIPT.replace("CLOSE", close), screen)
    assert done.stdout == "done\n", done.stderr
    assert done.returncode == 0, f"crashed at exit: {done.stderr}"


def test_a_screen_that_is_not_there_is_refused(tmp_path: Path) -> None:
    script = f"""
import warnings
import sgrl
warnings.simplefilter("ignore")
try:
    sgrl.make_env("{WALKER}", render_mode="human").reset(seed=0)
except RuntimeError as error:
    print(error)
"""
    done = run_python(script, without_screen() | {"DISPLAY": f"{tmp_path}/none:0"})
    assert done.returncode == 0, done.stderr
    assert 'render_mode="rgb_array"' in done.stdout


def test_gallery(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "bodies.png"
    labels = [("3d_hopper_5_full", "one"), (WALKER, "two"), ("3d_cheetah_14_full", "three")]
    write_gallery(path, labels, columns=2)
    assert [p.name for p in path.parent.iterdir()] == ["bodies.png"]
    with Image.open(path) as image:
        assert image.format == "PNG"
        sheet = np.asarray(image.convert("RGB"))
    assert sheet.shape == (2 * (TILE + CAPTION), 2 * TILE, 3)
    for place, family in enumerate(("hopper", "walker", "cheetah")):
        x, y = place % 2 * TILE, place // 2 * (TILE + CAPTION)
        body = sheet[y : y + TILE, x : x + TILE]
        assert middle(colored(body, FAMILIES[family].color)).mean() > 0.005
        caption = sheet[y + TILE : y + TILE + CAPTION, x : x + TILE]
        assert 5 < (caption < 128).all(axis=-1).sum() < caption.size / 10, "a name"
    assert (sheet[TILE + CAPTION :, TILE:] == 255).all(), "the last place is empty"


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_video(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "new" / f"rollout{suffix}"
    bodies = [WALKER, "3d_hopper_5_full"]
    frames = list(
        rollout_frames(Simulation(RandomDriver(), resolve_bodies(bodies)), seconds=0.4, size=96)
    )
    assert len(frames) == round(0.4 * FPS) == 10
    assert write_video(path, iter(frames)) == 10
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    read = decoded(path, 96, 2 * 96)
    assert len(read) == 10
    assert np.abs(read[0].astype(int) - frames[0]).mean() < 12
    assert (frames[0] != frames[-1]).any()


def test_rollouts_repeat() -> None:
    def rollout() -> list[Frame]:
        simulation = Simulation(RandomDriver(seed=4), [get_body(WALKER)], seed=5)
        return list(rollout_frames(simulation, seconds=0.12, size=64))

    first, second = rollout(), rollout()
    assert np.array_equal(first, second)


def test_tiles() -> None:
    red, blue = np.zeros((2, 4, 6, 3), np.uint8)
    red[..., 0], blue[..., 2] = 255, 255
    grid = tile([red, blue, red], columns=2)
    assert grid.shape == (8, 12, 3)
    assert np.array_equal(grid[:4, 6:], blue)
    assert np.array_equal(grid[4:, :6], red)
    assert not grid[4:, 6:].any()
    assert tile([red], columns=5).shape == red.shape


BLACK = np.zeros((16, 16, 3), np.uint8)


@pytest.mark.parametrize("name", ["video.avi", "video", "video.png"])
def test_video_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"\.mp4, \.gif"):
        write_video(tmp_path / name, [BLACK])
    assert not list(tmp_path.iterdir())


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    for name in ("taken.mp4", "taken.png"):
        (tmp_path / name).mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_video(tmp_path / "taken.mp4", [BLACK])
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_gallery(tmp_path / "taken.png", [("3d_hopper_3_shin", "hopper")])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["taken.mp4", "taken.png"]


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_video_that_fails_leaves_the_old_one(tmp_path: Path, suffix: str) -> None:
    def failing() -> Iterator[Frame]:
        yield BLACK
        yield BLACK
        raise RuntimeError("no more")

    fresh, old = tmp_path / f"fresh{suffix}", tmp_path / f"old{suffix}"
    old.write_bytes(b"what was there")
    for path in (fresh, old):
        with pytest.raises(RuntimeError, match="no more"):
            write_video(path, failing())
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_bytes() == b"what was there"
