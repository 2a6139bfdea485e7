"""`sgrl demo`: SET learns to run within minutes, with something to look at in the end."""

from __future__ import annotations

import csv
import importlib.util
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sgrl.files import writable
from sgrl.morphology import TABLE, get_body

if TYPE_CHECKING:
    from sgrl.training.evaluate import Acts
    from sgrl.training.run import Run

EPISODES = 50
"""That the return before and after is the mean of."""
BEHIND = 8.0
"""Metres between the robot of the video and the target behind it."""


def demo(
    out: Path = Path("demo"),
    minutes: float = 5.0,
    body: str = "3d_hopper_5_full",
    seconds: float = 10.0,
    seed: int = 0,
) -> None:
    """Train SET on one body for five minutes, and show what it has learned.

    Prints the return before and after, and writes the learning curve and a video of the robot
    turning toward a target behind it.

    Args:
        out: Folder for the run, the curve and the video.
        minutes: Length of the training.
        body: What to train on, a name of `sgrl envs`.
        seconds: Length of the video.
        seed: Of everything random.
    """
    from sgrl.training.command import train_command
    from sgrl.training.evaluate import random_policy
    from sgrl.training.policy import load_policy
    from sgrl.training.run import Run
    from sgrl.training.settings import TrainSettings
    from sgrl.viewer.driver import load_driver
    from sgrl.viewer.simulation import Simulation
    from sgrl.viewer.video import rollout_frames, write_video

    for name, number in (("minutes", minutes), ("seconds", seconds)):
        if not 0 < number < math.inf:
            raise ValueError(f"--{name} must be a positive number, not {number}")
    own = get_body(body)
    print(f"{body} falls over under random actions: {_return_of(random_policy(seed), body)}")
    print(f"training SET on it by PPO, {minutes:g} minutes ...", flush=True)
    settings = TrainSettings(
        bodies=(body,),
        algorithm="ppo",
        steps=10**9,
        minutes=minutes,
        seed=seed,
        runs=out,
        name="run",
    )
    run = Run(train_command(settings))
    print(f"\nafter training: {_return_of(load_policy(run.path), body)}")
    curve, video = out / "curve.png", out / "behind.mp4"
    draw_curve(run, curve)
    simulation = Simulation(load_driver(run.path), [own], seed=seed)
    simulation.aim_behind(BEHIND)
    write_video(video, rollout_frames(simulation, seconds=seconds, size=480))
    sgrl = Path(sys.argv[0])
    extra = "" if importlib.util.find_spec("viser") else " (needs pip install 'sgrl[viewer]')"
    relatives = [e.name for e in TABLE if e.family == own.family and e.name != own.name]
    print(
        f"\nSee {curve} and {video}: the target is behind it at the start.\n"
        "Next, on bodies that it has never seen, or an hour longer:\n"
        f"  {sgrl} eval {run.path} --bodies {' '.join(relatives)}\n"
        f"  {sgrl} train --resume {run.path} --minutes {60 + round(minutes)}\n"
        f"and click on the ground for it to go there{extra}:\n"
        f"  {sgrl} view {run.path}"
    )


def _return_of(policy: Acts, body: str) -> str:
    from sgrl.training.evaluate import evaluate
    from sgrl.training.results import format_mean

    (result,) = evaluate(policy, body, episodes=EPISODES)
    cells = [
        format_mean(result.mean(name), result.standard_error(name))
        for name in ("total_reward", "length")
    ]
    return f"return {cells[0]}, {cells[1]} steps an episode"


def _minutes(limits: tuple[float, float], last: dict[str, str]) -> tuple[float, float]:
    """Limits in steps as minutes, at the mean rate until the last row of metrics."""
    rate = float(last["steps"]) / (float(last["wall/seconds"]) / 60)
    return limits[0] / rate, limits[1] / rate


def draw_curve(run: Run, path: Path) -> None:
    """A PNG of the training returns against steps and, above, minutes."""
    # A figure without pyplot: no window system is asked for.
    from matplotlib.figure import Figure

    with open(run.metrics_file, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["return"]]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    steps = [float(row["steps"]) for row in rows]
    axes.plot(steps, [float(row["return"]) for row in rows])
    bodies = ", ".join(run.settings().bodies)
    axes.set(xlabel="steps", ylabel="return of recent episodes", title=f"SET on {bodies}")
    axes.grid(alpha=0.3)
    if len(rows) > 1:
        minutes = axes.twiny()
        minutes.set(xlabel="minutes", xlim=_minutes(axes.get_xlim(), rows[-1]))
    with writable(path) as draft:
        figure.savefig(draft, format="png", dpi=120)
