"""Videos of rollouts, several bodies side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
from numpy.typing import NDArray

from sgrl.envs.single import LocomotionEnv
from sgrl.envs.task import Variant
from sgrl.files import writable

Frame = NDArray[np.uint8]
Policy = Callable[[LocomotionEnv, NDArray[np.float32]], NDArray[np.float32]]
"""From an environment and its observation to an action."""

FPS = 25
FORMATS = (".mp4", ".gif")


def write_video(path: Path, frames: Iterable[Frame], fps: int = FPS) -> int:
    """Write frames as .mp4 or .gif; returns how many there were."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: a video is one of {', '.join(FORMATS)}")
    settings = (
        {"fps": fps, "codec": "libx264", "quality": 7, "macro_block_size": 2}
        if path.suffix == ".mp4"
        else {"duration": 1000 / fps, "loop": 0}
    )
    count = 0
    with writable(path) as target, closing(imageio.get_writer(target, **settings)) as writer:
        for frame in frames:
            writer.append_data(frame)
            count += 1
    return count


def random_policy(seed: int = 0, hold: float = 0.2) -> Policy:
    """Random actions, each held for `hold` seconds so that something moves."""
    rng = np.random.default_rng(seed)
    held: dict[int, tuple[float, NDArray[np.float32]]] = {}

    def act(env: LocomotionEnv, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        since, action = held.get(id(env), (-np.inf, np.zeros(0, np.float32)))
        now = float(env.data.time)
        if not since <= now < since + hold:
            action = rng.uniform(-1, 1, env.body.num_actions).astype(np.float32)
            held[id(env)] = (now, action)
        return action

    return act


def rollout_frames(
    bodies: Sequence[str],
    policy: Policy,
    *,
    seconds: float,
    seed: int = 0,
    variant: Variant = "v2",
    size: int = 360,
    columns: int = 2,
) -> Iterator[Frame]:
    """Frames of several bodies acting in real time, tiled; who falls starts again."""
    envs = [
        LocomotionEnv(body, variant=variant, render_mode="rgb_array", width=size, height=size)
        for body in bodies
    ]
    try:
        observations = [env.reset(seed=seed + i)[0] for i, env in enumerate(envs)]
        clocks = [0.0] * len(envs)
        for count in range(round(seconds * FPS)):
            tiles = []
            for i, env in enumerate(envs):
                while clocks[i] < count / FPS:
                    clocks[i] += env.dt
                    observations[i], _, fallen, _, _ = env.step(policy(env, observations[i]))
                    if fallen:
                        observations[i], _ = env.reset()
                frame = env.render()
                assert frame is not None
                tiles.append(frame)
            yield tile(tiles, columns)
    finally:
        for env in envs:
            env.close()


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
