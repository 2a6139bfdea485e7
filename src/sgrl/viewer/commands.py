"""`sgrl view`, `sgrl replay` and `sgrl video`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import tyro

from sgrl.command_line import BodiesOption
from sgrl.envs.variant import Variant
from sgrl.plugins import TRUST, TrustOption
from sgrl.viewer.choice import make_simulation, make_simulations, need_viser

LONGEST = 600.0
"""Seconds of a replay or a video."""

Policy = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")]
Out = Annotated[Path, tyro.conf.arg(aliases=["-o"])]


def view_command(
    run: Policy = None,
    bodies: BodiesOption = (),
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
        run: Folder of a run or its name in runs, RUN@best or RUN@STEPS, the name of a policy, or
            random for random actions; the policy for all families that ships if none.
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
    bodies: BodiesOption = (),
    *,
    out: Out = Path("replay.html"),
    seconds: float = 15.0,
    variant: Variant = "v2",
    seed: int = 0,
    trust: TrustOption = (),
) -> None:
    """Write a rollout as one HTML file with a timeline, which opens from disk and offline.

    Args:
        run: Folder of a run or its name in runs, RUN@best or RUN@STEPS, the name of a policy, or
            random for random actions; the policy for all families that ships if none.
        bodies: Bodies or collections, with _mirrored after the name their mirror images, at most 8;
            of each family in training the one with most limbs if none.
        out: The file to write, .html.
        seconds: Length of the rollout; who falls gets up again.
        variant: Where new targets appear: near (v2) or 10 km away (v1).
        seed: For starts, targets and random actions.
    """
    TRUST.add(trust)
    need_viser()
    from sgrl.viewer.replay_page import write_replay

    _check_seconds(seconds)
    simulation = make_simulation(run, bodies, variant, seed)
    frames = write_replay(out, simulation, seconds)
    print(f"wrote {out}: {frames} frames of {simulation.driver.name}")


def video_command(
    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]")] = (),
    bodies: BodiesOption = (),
    *,
    out: Out = Path("video.mp4"),
    seconds: float | None = None,
    clicks: int = 0,
    size: int | None = None,
    variant: Variant = "v2",
    seed: int = 0,
    trust: TrustOption = (),
) -> None:
    """Write a rollout as a video, several bodies or policies side by side; needs no screen.

    Falls are marked and counted. With --clicks the targets are where somebody could have clicked in
    the viewer, and how often robots fell and reached them is printed.

    Args:
        runs: Runs, RUN@best or RUN@STEPS, names of policies, or random for random actions, a column
            each; the policy for all families that ships if none.
        bodies: Bodies or collections, with _mirrored after the name their mirror images, at most 8;
            of each family in training the one with most limbs if none.
        out: The file to write, .mp4 or .gif.
        seconds: Length of the video, 10 or with clicks 60 if not given; who falls gets up again.
        clicks: How often to click on the ground, 3 to 12 meters from a robot; targets then stay.
        size: Pixels along each side of a body's picture; 480, of several 320, if not given.
        variant: Where new targets appear: near (v2) or 10 km away (v1).
        seed: For starts, targets, clicks and random actions.
    """
    TRUST.add(trust)
    from sgrl.viewer.clicks import Clicker
    from sgrl.viewer.video import FPS, count_frames, rollout_frames, show_progress, write_video

    if seconds is None:
        seconds = 60.0 if clicks else 10.0
    _check_seconds(seconds)
    if clicks < 0:
        raise ValueError(f"--clicks must be 0 or more, not {clicks}")
    if size is not None and (not 32 <= size <= 2048 or size % 2):
        raise ValueError(f"--size must be an even number from 32 to 2048, not {size}")
    simulations = make_simulations(runs, bodies, variant, seed, roams=not clicks)
    clickers = [Clicker(simulation, clicks, seconds, seed) for simulation in simulations]
    frames = rollout_frames(
        *simulations,
        seconds=seconds,
        size=size or (480 if len(simulations) * len(simulations[0].robots) == 1 else 320),
        before_frame=lambda: [clicker.click() for clicker in clickers],
    )
    total = count_frames(seconds)
    write_video(out, show_progress(frames, total, str(out)))
    names = " beside ".join(simulation.driver.name for simulation in simulations)
    print(f"wrote {out}: {total / FPS:g} s of {names}")
    for simulation in simulations:
        for robot in simulation.robots:
            falls = f"{robot.falls} fall{'' if robot.falls == 1 else 's'}"
            print(
                f"{simulation.driver.name} on {robot.body.name}: {falls}, "
                f"{robot.reached} target{'' if robot.reached == 1 else 's'} reached"
                + (f", {clicks} clicks" if clicks else "")
            )


def _check_seconds(seconds: float) -> None:
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"--seconds must be more than 0 and at most {LONGEST:g}, not {seconds:g}")
