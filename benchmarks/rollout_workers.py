"""How fast PPO learns with its rollouts made by workers on Ray, beside making them itself.

    python benchmarks/rollout_workers.py
    python benchmarks/rollout_workers.py --bodies 3d_cwhh++ --workers 0 1 2 4 --envs-per-body 16

Prints a Markdown table: steps per second of the training itself (run folder, metrics and
checkpoints included), how many times that is of the first case, what share of the time is spent
in waiting for steps and in learning, and the return at the end, which is that of the same
training whoever makes its steps: noise and starts are the same, and only rounding differs.
Cases take turns on the same cores; the median over turns counts. The first rollout of a turn,
with the start of the workers, does not.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.training.loop import train
from sgrl.training.metrics import ACTIVITIES
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings, resolve_settings


@dataclass
class Case:
    """Trainings with so many workers."""

    settings: TrainSettings
    speeds: list[float] = field(default_factory=list)
    shares: list[dict[str, float]] = field(default_factory=list)
    end: float = 0.0
    """Return at the end of the latest."""

    def measure(self, seed: int) -> None:
        """Train once."""
        with tempfile.TemporaryDirectory() as folder:
            run = Run(train(replace(self.settings, runs=Path(folder), seed=seed)))
            with open(run.metrics_file, encoding="utf-8", newline="") as file:
                first, *rows = csv.DictReader(file)
        spent = {name: sum(float(row[f"wall/{name}"]) for row in rows) for name in ACTIVITIES}
        total = sum(spent.values())
        self.speeds.append((int(rows[-1]["steps"]) - int(first["steps"])) / total)
        self.shares.append({name: seconds / total for name, seconds in spent.items()})
        self.end = float(rows[-1]["return"] or "nan")

    def share(self, *names: str) -> float:
        """Of the time, in these activities."""
        return median(sum(share[name] for name in names) for share in self.shares)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", default="3d_cheetah_14_full", help="a body or collection")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="0: none")
    parser.add_argument("--envs-per-body", type=int)
    parser.add_argument("--rollouts", type=int, default=20, help="of a turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--threads", type=int, default=0, help="of the learner; 0: all cores")
    args = parser.parse_args()
    settings = resolve_settings(
        TrainSettings(
            bodies=(args.bodies,),
            algorithm="ppo",
            envs_per_body=args.envs_per_body,
            threads=args.threads,
        )
    )
    config, envs = settings.config, settings.envs_per_body
    assert isinstance(config, PPOConfig)
    assert envs is not None
    size = config.n_steps * envs * len(settings.bodies)
    settings = replace(settings, steps=args.rollouts * size, log_every=size)
    cases = {n: Case(replace(settings, rollout_workers=n)) for n in args.workers}
    for turn in range(args.rounds):
        for case in cases.values():
            case.measure(seed=turn)
    print(
        f"{args.bodies}, {envs} environments of each body, rollouts of {config.n_steps} steps, "
        f"{settings.threads} threads\n"
    )
    print("| workers | steps/s | ratio | steps | learning | return |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    base = cases[args.workers[0]]
    for workers, case in cases.items():
        learning = case.share("sample", "update")
        ratio = median(a / b for a, b in zip(case.speeds, base.speeds, strict=True))
        print(
            f"| {workers or 'none'} | {median(case.speeds):,.0f} | {ratio:.2f} "
            f"| {case.share('act', 'sim'):.0%} | {learning:.0%} | {case.end:.1f} |"
        )


if __name__ == "__main__":
    main()
