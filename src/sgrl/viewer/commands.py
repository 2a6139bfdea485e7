"""`sgrl view`, `sgrl replay` and `sgrl video`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import tyro

from sgrl.envs.task import Variant
from sgrl.models.plugins import TRUST, TrustOption
from sgrl.viewer.choice import make_simulation, need_viser

LONGEST = 600.0
"""Seconds of a replay or a video."""

Policy = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")]
Bodies = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]", aliases=["--body"])]
Out = Annotated[Path, tyro.conf.arg(aliases=["-o"])]


def view_command(
    run: Policy = None,
    bodies: Bodies = (),
    *,
    open: bool = True,
    port: int = 8080,
    host: str = "127.0.0.1",
    variant: Variant = "v2",
    seed: int = 0,
    trust: TrustOption = (),
) -> None:
    """Drive robots in the browser: click on the ground, and they run there.

    Opens a page on this machine. Pick any body that the policy can drive, push it, slow it down,
    cut limbs off, add more robots.

    Args:
        run: Folder of a run, its name in runs, the name of a policy, or random for random actions;
            the policy for all families that ships if none.
        bodies: Bodies or collections to begin with, with _mirrored after the name their mirror
            images, at most 8; others can be picked on the page. Of each family in training the one
            with most limbs if none.
        open: Open the page in the browser, where there is a screen.
        port: Where the page is served; the next free one if it is in use.
        host: Address to serve on. Others than this machine's own let in whoever can reach them and
            has the address that is printed.
        variant: Where new targets appear: near (v2) or 10 km away (v1).
        seed: For starts, targets and random actions.
    """
    TRUST.add(trust)
    need_viser()
    from sgrl.viewer.access import is_loopback
    from sgrl.viewer.live import LiveViewer

    simulation = make_simulation(run, bodies, variant, seed, roams=False)
    viewer = LiveViewer(simulation, host, port)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: viewer.close())
    if not is_loopback(host):
        print(
            f"sgrl: warning: {host} can be reached from other machines: whoever has the "
            "address can use the page, and nothing on the way is encrypted",
            file=sys.stderr,
        )
    if viewer.port != port:
        print(f"port {port} is in use; taking {viewer.port}")
    print(f"{simulation.driver.name} at {viewer.url} (Ctrl-C stops it)", flush=True)
    if open:
        viewer.open_browser()
    viewer.run()


def replay_command(
    run: Policy = None,
    bodies: Bodies = (),
    *,
    out: Out = Path("replay.html"),
    seconds: float = 15.0,
    variant: Variant = "v2",
    seed: int = 0,
    trust: TrustOption = (),
) -> None:
    """Write a rollout as one HTML file with a timeline, which opens from disk and offline.

    Args:
        run: Folder of a run, its name in runs, the name of a policy, or random for random actions;
            the policy for all families that ships if none.
        bodies: Bodies or collections, with _mirrored after the name their mirror images, at most 8;
            of each family in training the one with most limbs if none.
        out: The file to write, .html.
        seconds: Length of the rollout; who falls gets up again.
        variant: Where new targets appear: near (v2) or 10 km away (v1).
        seed: For starts, targets and random actions.
    """
    TRUST.add(trust)
    need_viser()
    from sgrl.viewer.replay import write_replay

    _check_seconds(seconds)
    simulation = make_simulation(run, bodies, variant, seed)
    frames = write_replay(out, simulation, seconds)
    print(f"wrote {out}: {frames} frames of {simulation.driver.name}")


def video_command(
    run: Policy = None,
    bodies: Bodies = (),
    *,
    out: Out = Path("video.mp4"),
    seconds: float = 10.0,
    size: int = 480,
    variant: Variant = "v2",
    seed: int = 0,
    trust: TrustOption = (),
) -> None:
    """Write a rollout as a video, several bodies side by side; needs no screen.

    Args:
        run: Folder of a run, its name in runs, the name of a policy, or random for random actions;
            the policy for all families that ships if none.
        bodies: Bodies or collections, with _mirrored after the name their mirror images, at most 8;
            of each family in training the one with most limbs if none.
        out: The file to write, .mp4 or .gif.
        seconds: Length of the video; who falls gets up again.
        size: Pixels along each side of a body's picture.
        variant: Where new targets appear: near (v2) or 10 km away (v1).
        seed: For starts, targets and random actions.
    """
    TRUST.add(trust)
    from sgrl.viewer.video import FPS, rollout_frames, write_video

    _check_seconds(seconds)
    if not 32 <= size <= 2048 or size % 2:
        raise ValueError(f"--size must be an even number from 32 to 2048, not {size}")
    simulation = make_simulation(run, bodies, variant, seed)
    count = write_video(out, rollout_frames(simulation, seconds, size=size))
    print(f"wrote {out}: {count / FPS:g} s of {simulation.driver.name}")


def _check_seconds(seconds: float) -> None:
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"--seconds must be more than 0 and at most {LONGEST:g}, not {seconds:g}")
