"""Which size of SET learns most per second: the measurement behind the preset `fast`.

Each candidate trains by PPO on one body for the same wall time and on one thread; what counts is
its return at the end of that time, not after as many steps. Run as many at a time as there are
cores, in any order: each has its run's folder, and what is there already is not trained again.

    python benchmarks/set_sizes.py --minutes 20 --sizes fast deep --seeds 0 1
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from sgrl.models.methods import make_gaussian_policy
from sgrl.models.set import PRESETS, SETConfig
from sgrl.training.loop import train
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings

SIZES = {
    "fast": PRESETS["fast"],
    "wide": SETConfig(embedding=64, hidden=128, matrix_hidden=96),
    "deep": SETConfig(layers=2),
    "paper": PRESETS["paper"],
}


def trained(body: str, size: str, minutes: float, seed: int, runs: Path) -> Run:
    """The run of one candidate, trained if it is not there yet."""
    run = Run(runs / f"{size}-{body}-{minutes:g}min-seed{seed}")
    settings = TrainSettings(
        bodies=(body,),
        algorithm="ppo",
        steps=10**9,
        minutes=minutes,
        seed=seed,
        threads=1,
        runs=runs,
        name=run.path.name,
        network=SIZES[size],
    )
    if run.settings_file.exists():
        settings = TrainSettings(resume=run.path)
    return Run(train(settings))


def row(run: Run, size: str, body: str, minutes: float, seed: int) -> str:
    """A line of the table: returns at three times."""
    with open(run.metrics_file, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    cells = []
    for part in (1 / 3, 2 / 3, 1.0):
        done = [one for one in rows if float(one["wall/seconds"]) <= 60 * minutes * part + 30]
        cells.append(f"{float(done[-1]['return']):.0f}" if done and done[-1]["return"] else "")
    count = sum(p.numel() for p in make_gaussian_policy("set", config=SIZES[size]).parameters())
    steps, seconds = int(rows[-1]["steps"]), float(rows[-1]["wall/seconds"])
    numbers = f"{count:,} | {steps / seconds:.0f} | {steps:,}"
    return f"| {size} | {body} | {seed} | {numbers} | {' | '.join(cells)} |"


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--body", default="3d_cheetah_14_full")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--minutes", type=float, default=20.0, help="of training, each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/set_sizes"))
    args = parser.parse_args()
    lines = []
    for seed in args.seeds:
        for size in args.sizes:
            run = trained(args.body, size, args.minutes, seed, args.runs)
            lines.append(row(run, size, args.body, args.minutes, seed))
    thirds = " | ".join(f"return after {args.minutes * k / 3:.3g} min" for k in (1, 2, 3))
    print(f"| size | body | seed | learned numbers | steps/s | steps | {thirds} |")
    print("| --- | --- | ---: |" + " ---: |" * 6)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
