"""How long a checkpoint of TD3 keeps training waiting, and its writer's thread busy.

    python benchmarks/checkpoint_speed.py

Prints a Markdown table, by the median of a few: CPU seconds for the copy of the state, which the
training thread takes, and for packing it with its checksums, which another thread does meanwhile.
CPU seconds, because they are much the same on a busy machine; writing to the disk is not counted.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from sgrl.algorithms.td3_config import TD3Config
from sgrl.models.methods import PRESETS
from sgrl.training.loop import Training
from sgrl.training.run import create_run
from sgrl.training.settings import TrainSettings, resolve_settings


def measure(settings: TrainSettings, rounds: int) -> tuple[float, float, int]:
    """Seconds of copying and of packing, and bytes of the packed files."""
    settings = resolve_settings(settings)
    training = Training(settings, create_run(settings))
    training.prepare(lambda _: None)
    learner, clock = training.learner, training.clock
    while learner.updates < 2:  # so that both optimizers have their state
        learner.store(training.collector.step(learner, clock))
        learner.update(training.losses.add, clock, lambda: False)
    copying, packing = [], []
    for _ in range(rounds):
        start = time.thread_time()
        checkpoint = training.checkpoint()
        copied = time.thread_time()
        packed = checkpoint.pack()
        packing.append(time.thread_time() - copied)
        copying.append(copied - start)
    training.collector.close()
    training.metrics.close()
    return median(copying), median(packing), sum(map(len, packed.values()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--body", default="3d_cheetah_14_full")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| set | MB | copying, s | packing, s |\n| --- | ---: | ---: | ---: |")
    for preset in PRESETS:
        with TemporaryDirectory() as folder:
            settings = TrainSettings(
                bodies=(args.body,),
                preset=preset,
                steps=1_000,
                algorithm="td3",
                config=TD3Config(learning_starts=4, utd_ratio=0.25),
                checkpoint_every=1_000,
                threads=1,
                runs=Path(folder),
            )
            copying, packing, size = measure(settings, args.rounds)
        print(f"| `{preset}` | {size / 1e6:.1f} | {copying:.3f} | {packing:.3f} |", flush=True)


if __name__ == "__main__":
    main()
