"""`sgrl demo`: within a minute something runs, and within minutes a robot learns to, to be seen."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sgrl.files import writable
from sgrl.markup import markdown_table
from sgrl.morphology import Morphology, get_body

if TYPE_CHECKING:
    from sgrl.training.acting import Policy
    from sgrl.training.run import Run
    from sgrl.viewer.simulation import Simulation

METHOD, ALGORITHM = "monolithic+tn", "sac"
"""What learns a single body in the fewest minutes of a core."""
EPISODES = 20
"""That the returns are the means of."""
FIRST_SECONDS = 4.0
"""Length of the first video, which is there within a minute."""
BEHIND = 8.0
"""Meters between the robot of the second video and the target behind it."""


def demo(
    out: Path = Path("demo"),
    minutes: float = 5.0,
    body: Annotated[str, tyro.conf.arg(aliases=["--bodies"])] = "3d_cheetah_14_full",
    seconds: float = 10.0,
    seed: int = 0,
) -> None:
    """Watch the policy for all families, then train a robot for five minutes and see it run.

    Writes a video of a body of each family under the policy that ships; then trains on one body,
    writes the learning curve and a video of the robot before and after, the policy that ships
    beside it, and prints their returns.

    Args:
        out: Folder for the run, the curve and the videos.
        minutes: Length of the training.
        body: What to train on, a name of `sgrl envs`.
        seconds: Length of the second video.
        seed: Of everything random.
    """
    for name, number in (("minutes", minutes), ("seconds", seconds)):
        if not 0 < number < math.inf:
            raise ValueError(f"--{name} must be a positive number, not {number}")
    robot, start = get_body(body), time.monotonic()
    _say(0.0, "one policy, a body of each family")
    first = _show_families(out / "families.mp4", seed)
    print(f"See {first}, or click on the ground for them to go there{_extra()}:\n  {_sgrl()} view")
    _say(time.monotonic() - start, f"{METHOD} learns on {body} by {ALGORITHM}, {minutes:g} minutes")
    run = _train(out, minutes, body, seed)
    curve = out / "curve.png"
    draw_curve(run, curve)
    _say(time.monotonic() - start, "before and after")
    shipped = shipped_policy(robot)
    print(_compare(run, shipped, body, seed))
    video = _show_policies(out / "before_and_after.mp4", run, shipped, robot, seconds, seed)
    print(
        f"\nSee {video}, where the target is behind the robot at the start, and {curve}.\n"
        "Train longer, or drive it yourself:\n"
        f"  {_sgrl()} train --resume {run.path} --minutes {30 + round(minutes)}\n"
        f"  {_sgrl()} view {run.path}"
    )


def _say(seconds: float, what: str) -> None:
    print(f"\n[{seconds // 60:.0f}:{seconds % 60:02.0f}] {what}", flush=True)


def _sgrl() -> str:
    """The command that was called, to be called again."""
    return "python -m sgrl" if Path(sys.argv[0]).stem == "__main__" else sys.argv[0]


def _extra() -> str:
    return "" if importlib.util.find_spec("viser") else " (needs pip install 'sgrl[viewer]')"


def _show_families(path: Path, seed: int) -> Path:
    """Write a video of the policy for all families on the body with most limbs of each."""
    from sgrl.viewer.choice import make_simulation

    return _film(path, [make_simulation(None, seed=seed)], FIRST_SECONDS, size=240)


def _train(out: Path, minutes: float, body: str, seed: int) -> Run:
    from sgrl.training.command import train_command
    from sgrl.training.run import Run
    from sgrl.training.settings import TrainSettings

    settings = TrainSettings(
        bodies=(body,),
        method=METHOD,
        algorithm=ALGORITHM,
        steps=10**9,
        minutes=minutes,
        seed=seed,
        # Batches of one body are small: where cores are busy, threads would wait for each other.
        threads=1,
        runs=out,
        name="run",
    )
    return Run(train_command(settings))


def shipped_policy(body: Morphology) -> str:
    """The name of the policy that ships for a body: its family's, else the one for all."""
    from sgrl.training.run import SHIPPED
    from sgrl.viewer.choice import BEST

    family = f"set-{body.family}"
    return family if (SHIPPED / family).is_dir() else BEST


def _compare(run: Run, shipped: str, body: str, seed: int) -> str:
    """A table of returns before and after the training, and of the policy that ships."""
    from sgrl.training.acting import RandomPolicy
    from sgrl.training.evaluate import evaluate
    from sgrl.training.policy import act_on_one_thread, load_policy
    from sgrl.training.results import format_mean

    act_on_one_thread()  # the training has taken all cores
    policies: dict[str, Policy] = {
        "before: random actions": RandomPolicy(seed),
        "after": load_policy(run.path),
        f"{shipped}, which ships": load_policy(shipped),
    }
    rows = []
    for name, policy in policies.items():
        (result,) = evaluate(policy, body, episodes=EPISODES)
        lasted = sum(not episode.fell for episode in result.episodes)
        reward = format_mean(result.mean("total_reward"), result.standard_error("total_reward"))
        rows.append((name, reward, f"{lasted} of {EPISODES}"))
    return markdown_table(("policy", "return", "episodes without a fall"), rows)


def _show_policies(
    path: Path, run: Run, shipped: str, body: Morphology, seconds: float, seed: int
) -> Path:
    """Write a video of the robot before and after the training, the policy that ships beside it."""
    from sgrl.viewer.choice import RANDOM, make_simulations

    simulations = make_simulations([RANDOM, run.path, shipped], [body], seed=seed)
    for simulation in simulations:
        simulation.aim_behind(BEHIND)
    return _film(path, simulations, seconds, size=320)


def _film(path: Path, simulations: Sequence[Simulation], seconds: float, size: int) -> Path:
    from sgrl.viewer.video import count_frames, rollout_frames, show_progress, write_video

    frames = rollout_frames(*simulations, seconds=seconds, size=size)
    write_video(path, show_progress(frames, count_frames(seconds), str(path)))
    return path


def draw_curve(run: Run, path: Path) -> None:
    """A PNG of the training returns against minutes, with lines to compare them with."""
    # A figure without pyplot: no window system is asked for.
    from matplotlib.figure import Figure

    from sgrl.training.references import KINDS, reference_return

    settings = run.settings()
    points = [
        (seconds / 60, value)
        for row in run.metrics()
        if (value := row["return"]) is not None and (seconds := row["wall/seconds"]) is not None
    ]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([minutes for minutes, _ in points], [value for _, value in points])
    for kind in KINDS:
        value = reference_return(kind, settings.bodies, settings.variant)
        if value is not None:
            axes.axhline(value, color="gray", linestyle="--", linewidth=1)
            axes.annotate(
                f"{kind} {value:,.0f}",
                (1.0, value),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                color="gray",
            )
    axes.set(
        xlabel="minutes",
        ylabel="return of recent episodes",
        title=f"{settings.method} on {', '.join(settings.bodies)}",
    )
    axes.grid(alpha=0.3)
    with writable(path) as draft:
        figure.savefig(draft, format="png", dpi=120)
