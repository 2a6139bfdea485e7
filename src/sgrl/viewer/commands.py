"""`sgrl view`, `sgrl replay` and `sgrl video`."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sgrl.envs.task import Variant
from sgrl.models.plugins import TRUST, TrustOption
from sgrl.morphology import FAMILIES, Morphology, resolve_bodies
from sgrl.viewer.driver import Driver, load_driver

if TYPE_CHECKING:
    from sgrl.viewer.simulation import Simulation

LONGEST = 600.0
"""Seconds of a replay or a video."""

Policy = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")]
Bodies = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")]
Out = Annotated[Path, tyro.conf.arg(aliases=["-o"])]


def view_command(
    run: Policy = None,
    body: Bodies = (),
    *,
    port: int = 8080,
    host: str = "127.0.0.1",
    variant: Variant = "v2",
    seed: int = 0,
    trust: TrustOption = (),
) -> None:
    """Drive robots in the browser: click on the ground, and they run there.

    Opens a page on this machine. Pick any body that the policy can drive, push it, slow it down,
    cut limbs off, add more robots. Without a run the actions are random.

    Args:
        run: Folder of a run, its name in runs, or the name of a policy; random actions if none.
        body: Bodies or collections to begin with, with _mirrored after the name their mirror
            images, at most 8; others can be picked on the page.
        port: Where the page is served; the next free one if it is in use.
        host: Address to serve on. Others than this machine's own let in whoever can reach them and
            has the address that is printed.
        variant: Where new targets appear: near (v2) or 10 km away (v1).
        seed: For starts, targets and random actions.
    """
    TRUST.add(trust)
    _need_viser()
    from sgrl.viewer.access import is_loopback
    from sgrl.viewer.page import Page
    from sgrl.viewer.server import start_server

    simulation = _simulate(run, body, variant, seed)
    server = start_server(host, port, "sgrl")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        page = Page(server, simulation)
        if not is_loopback(host):
            print(
                f"sgrl: warning: {host} can be reached from other machines: whoever has the "
                "address can use the page, and nothing on the way is encrypted",
                file=sys.stderr,
            )
        if server.get_port() != port:
            print(f"port {port} is in use; taking {server.get_port()}")
        print(f"{simulation.driver.title} at {server.url} (Ctrl-C stops it)", flush=True)
        page.run(stop)
    finally:
        server.stop()


def replay_command(
    run: Policy = None,
    body: Bodies = (),
    *,
    out: Out = Path("replay.html"),
    seconds: float = 15.0,
    variant: Variant = "v2",
    seed: int = 0,
    trust: TrustOption = (),
) -> None:
    """Write a rollout as one HTML file with a timeline, which opens from disk and offline.

    Args:
        run: Folder of a run, its name in runs, or the name of a policy; random actions if none.
        body: Bodies or collections, with _mirrored after the name their mirror images, at most 8;
            the first of the training if none.
        out: The file to write, .html.
        seconds: Length of the rollout; who falls gets up again.
        variant: Where new targets appear: near (v2) or 10 km away (v1).
        seed: For starts, targets and random actions.
    """
    TRUST.add(trust)
    _need_viser()
    from sgrl.viewer.replay import write_replay

    _check_seconds(seconds)
    simulation = _simulate(run, body, variant, seed)
    frames = write_replay(out, simulation, seconds)
    print(f"wrote {out}: {frames} frames of {simulation.driver.title}")


def video_command(
    run: Policy = None,
    body: Bodies = (),
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
        run: Folder of a run, its name in runs, or the name of a policy; random actions if none.
        body: Bodies or collections, with _mirrored after the name their mirror images, at most 8;
            the first of the training if none.
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
    simulation = _simulate(run, body, variant, seed)
    count = write_video(out, rollout_frames(simulation, seconds, size=size))
    print(f"wrote {out}: {count / FPS:g} s of {simulation.driver.title}")


def _simulate(run: str | None, body: tuple[str, ...], variant: Variant, seed: int) -> Simulation:
    """The robots that all three commands show."""
    from sgrl.viewer.simulation import Simulation

    if run is not None:
        from sgrl.training.policy import act_on_one_thread

        act_on_one_thread()
    driver = load_driver(run, seed)
    return Simulation(driver, _choose(driver, body), variant=variant, seed=seed)


def _choose(driver: Driver, names: tuple[str, ...]) -> tuple[Morphology, ...]:
    """The bodies to begin with."""
    known = driver.bodies()
    bodies = resolve_bodies(known.get(name, name) for name in names)
    driver.check(bodies)
    return bodies or driver.trained_on[:1] or (FAMILIES["cheetah"].body,)


def _check_seconds(seconds: float) -> None:
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"--seconds must be more than 0 and at most {LONGEST:g}, not {seconds:g}")


def _need_viser() -> None:
    if importlib.util.find_spec("viser") is None:
        raise RuntimeError(
            "this needs the viewer; install it with: pip install 'sgrl[viewer]', or in a checkout "
            "pip install '.[viewer]'"
        )
