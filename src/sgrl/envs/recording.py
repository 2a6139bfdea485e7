"""Videos of episodes from Python: a wrapper, and the one writer of video files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sgrl.cores import cores_are_busy
from sgrl.files import writable

FORMATS = (".mp4", ".gif")


def video_writer(path: Path, fps: float) -> Any:
    """An open video file, one of `FORMATS`; `append_data(frame)` and `close()` it."""
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # type: ignore[import-untyped]  # noqa: F401 (imageio finds it)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "videos need imageio and its ffmpeg: pip install 'imageio[ffmpeg]'", name=error.name
        ) from error
    if path.suffix == ".gif":
        return imageio.get_writer(path, duration=1000 / fps, loop=0)
    threads = ["-threads", "1"] if cores_are_busy() else []
    return imageio.get_writer(
        path, fps=fps, codec="libx264", quality=7, macro_block_size=2, ffmpeg_params=threads
    )


def is_cube_or_thousandth(episode: int) -> bool:
    """Whether Gymnasium's wrapper would film this episode by default."""
    if episode >= 1000:
        return episode % 1000 == 0
    root: int = round(episode ** (1 / 3))
    return root**3 == episode


class RecordVideo(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Films episodes: a file `<name_prefix>-episode-<number>.mp4` in a folder for each.

    Takes any environment with `render_mode="rgb_array"`, and the arguments of Gymnasium's wrapper
    of that name, which wants moviepy. Episodes are numbered from 0; `episode_trigger` says for
    a number whether to film it, by default for 0, 1, 8, 27, ... and every thousandth. A file
    appears when its episode ended, or with `close()`, and holds the first frame and one for each
    step.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        video_folder: str | Path,
        episode_trigger: Callable[[int], bool] = is_cube_or_thousandth,
        name_prefix: str = "rl-video",
        fps: float | None = None,
    ) -> None:
        if not isinstance(env, gymnasium.Env):
            raise TypeError("RecordVideo films a single environment: make one with sgrl.make_env")
        if env.render_mode != "rgb_array":
            raise ValueError(
                'RecordVideo needs an environment made with render_mode="rgb_array", not '
                f"{env.render_mode!r}"
            )
        super().__init__(env)
        self.video_folder = Path(video_folder)
        self.episode_trigger = episode_trigger
        self.name_prefix = name_prefix
        self.fps = fps or env.metadata.get("render_fps", 30)
        self.episode_id = -1
        """Number of the episode that runs."""
        self._open = ExitStack()
        self._writer: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode, and a film of it if it is its turn."""
        self._finish()
        observation, info = self.env.reset(seed=seed, options=options)
        self.episode_id += 1
        if self.episode_trigger(self.episode_id):
            path = self.video_folder / f"{self.name_prefix}-episode-{self.episode_id}.mp4"
            draft = self._open.enter_context(writable(path))
            self._writer = video_writer(draft, self.fps)
            self._open.callback(self._writer.close)
            self._film()
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """One step, filmed."""
        stepped = self.env.step(action)
        self._film()
        if stepped[2] or stepped[3]:
            self._finish()
        return stepped

    def close(self) -> None:
        """Finish the film that runs, and close the environment."""
        self._finish()
        super().close()

    def _film(self) -> None:
        if self._writer is not None:
            frame: NDArray[np.uint8] = self.env.render()  # type: ignore[assignment]
            self._writer.append_data(frame)

    def _finish(self) -> None:
        self._writer = None
        self._open.close()
