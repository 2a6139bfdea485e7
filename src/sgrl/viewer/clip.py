"""A video of a rollout from Python, which a notebook shows inline."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sgrl.envs.variant import Variant
from sgrl.files import writable
from sgrl.morphology import Morphology
from sgrl.viewer.choice import make_simulations

if TYPE_CHECKING:
    from sgrl.training.policy import TrainedPolicy


class VideoClip:
    """A video in memory, and how often each robot fell in it."""

    def __init__(self, mp4: bytes, title: str, falls: dict[str, int]) -> None:
        """`falls`: by what drives which body."""
        self.mp4 = mp4
        self.title = title
        self.falls = falls

    def __repr__(self) -> str:
        falls = ", ".join(f"{name}: {count}" for name, count in self.falls.items())
        return f"<video of {self.title}; falls {falls}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the video itself, which is then part of the notebook."""
        data = base64.b64encode(self.mp4).decode()
        video = f'<video controls autoplay loop muted src="data:video/mp4;base64,{data}"></video>'
        return f"<p>{escape(repr(self)[1:-1])}</p>{video}"

    def save(self, path: str | Path) -> None:
        """Write it as .mp4."""
        if Path(path).suffix != ".mp4":
            raise ValueError(f"{path}: a clip is saved as .mp4")
        with writable(Path(path)) as draft:
            draft.write_bytes(self.mp4)


def video(
    policy: str | Path | TrainedPolicy | list[str | Path | TrainedPolicy] | None = None,
    bodies: Sequence[str | Morphology] = (),
    *,
    seconds: float = 6.0,
    size: int = 320,
    variant: Variant = "v2",
    seed: int = 0,
) -> VideoClip:
    """Film a rollout, as `sgrl video` does; the last line of a notebook's cell shows it inline.

    `policy` is one that was loaded, a run, the name of a policy that ships, or "random"; several in
    a list have a column each. Without one the policy for all families that ships is filmed, and
    without `bodies` the one with most limbs of each family that it was trained on.
    """
    from sgrl.viewer.video import rollout_frames, write_video

    policies = policy if isinstance(policy, list | tuple) else [policy]
    simulations = make_simulations(policies, bodies, variant, seed)
    with tempfile.TemporaryDirectory(prefix="sgrl-") as folder:
        path = Path(folder) / "clip.mp4"
        write_video(path, rollout_frames(*simulations, seconds=seconds, size=size))
        mp4 = path.read_bytes()
    falls = {
        f"{simulation.driver.name} on {robot.body.name}": robot.falls
        for simulation in simulations
        for robot in simulation.robots
    }
    return VideoClip(mp4, " beside ".join(one.driver.name for one in simulations), falls)
