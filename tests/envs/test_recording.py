"""Episodes as video files."""

import sys

import gymnasium
import numpy as np
import pytest

import sgrl
from sgrl.envs import RecordVideo
from sgrl.envs.recording import is_cube_or_thousandth

from .films import decoded

NAME = "3d_hopper_5_full"


def small(**settings):
    return sgrl.make_env(NAME, render_mode="rgb_array", width=64, height=64, **settings)


def test_a_film_has_a_frame_for_the_start_and_for_each_step(tmp_path):
    env = RecordVideo(small(max_episode_steps=6), tmp_path, lambda episode: episode % 2 == 0, "run")
    for _ in range(3):
        env.reset(seed=0)
        while not any(env.step(np.zeros(12))[2:4]):
            pass
    env.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run-episode-0.mp4",
        "run-episode-2.mp4",
    ]
    frames = decoded(tmp_path / "run-episode-0.mp4", 64, 64)
    assert len(frames) == 7
    assert frames[0].std() > 5
    assert env.fps == env.metadata["render_fps"] == 125


def test_an_episode_that_is_left_is_filmed_as_far_as_it_went(tmp_path):
    env = RecordVideo(small(), tmp_path, lambda _: True, fps=25)
    env.reset(seed=0)
    env.step(np.zeros(12))
    assert not list(tmp_path.glob("rl*"))
    env.reset()
    assert len(decoded(tmp_path / "rl-video-episode-0.mp4", 64, 64)) == 2
    env.close()
    assert len(decoded(tmp_path / "rl-video-episode-1.mp4", 64, 64)) == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_gymnasiums_environments_are_filmed(tmp_path):
    env = gymnasium.make(f"sgrl/{NAME}-v1", render_mode="rgb_array", width=32, height=32)
    with RecordVideo(env, tmp_path) as film:
        film.reset(seed=0)
    assert (tmp_path / "rl-video-episode-0.mp4").stat().st_size > 0


def test_which_episodes_are_filmed_by_default():
    filmed = [number for number in range(2100) if is_cube_or_thousandth(number)]
    assert filmed == [*(n**3 for n in range(10)), 1000, 2000]


def test_what_can_not_be_filmed_says_so(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match='render_mode="rgb_array", not None'):
        RecordVideo(sgrl.make_env(NAME), tmp_path)
    with pytest.raises(TypeError, match="films a single environment"):
        RecordVideo(sgrl.make_vec(NAME, 2, render_mode="rgb_array"), tmp_path)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    env = RecordVideo(small(), tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'imageio\[ffmpeg\]'"):
        env.reset()
    assert not list(tmp_path.iterdir())
