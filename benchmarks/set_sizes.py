"""Which size of SET learns most per second: the measurement behind the preset `fast`.

Each candidate trains by a small PPO on one body for the same wall time and on the same number of
threads; what counts is its return at the end of that time, not after as many steps.

    python benchmarks/set_sizes.py --minutes 10 --sizes fast wide
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgrl.envs import LocomotionVectorEnv
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import make_policy, make_value
from sgrl.models.set import PRESETS, SetConfig
from sgrl.morphology import Morphology

SIZES = {
    "fast": PRESETS["fast"],
    "shallow": SetConfig(layers=1),
    "deep": SetConfig(layers=3),
    "narrow": SetConfig(embedding=16, hidden=32, matrix_hidden=24),
    "wide": SetConfig(embedding=64, hidden=128, matrix_hidden=96),
    "paper": PRESETS["paper"],
}
COPIES, STEPS, EPOCHS, ROWS = 64, 64, 4, 1024
DISCOUNT, TRACE, CLIP = 0.99, 0.95, 0.2
TARGET_KL = 0.03
REWARD_SCALE = 0.1


@dataclass
class Rollout:
    """Flat over steps and copies."""

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor


class Learner:
    """Proximal policy optimisation, as plain as it gets."""

    def __init__(self, body: str, config: SetConfig, seed: int) -> None:
        torch.manual_seed(seed)
        self.env = LocomotionVectorEnv(body, COPIES, threads=1)
        self.body: Morphology = self.env.parts[0].body
        self.policy = make_policy("set", config=config)
        self.value = make_value("set", config=config)
        self.parameters = [*self.policy.parameters(), *self.value.parameters()]
        self.optimiser = torch.optim.Adam(self.parameters, 3e-4, fused=True)
        self.seen = torch.from_numpy(self.env.reset(seed=seed)[0])
        self.sums = np.zeros(COPIES)
        self.finished: list[float] = []

    def batch(self, observations: Tensor) -> LimbBatch:
        return LimbBatch.from_flat(observations, self.body)

    def distribution(self, observations: Tensor) -> torch.distributions.Normal:
        batch = self.batch(observations)
        mean, log_std = (batch.layout.actions_to_rows(part) for part in self.policy(batch))
        return torch.distributions.Normal(mean, log_std.exp(), validate_args=False)

    def values(self, observations: Tensor) -> Tensor:
        batch = self.batch(observations)
        return batch.layout.row_mean(self.value(batch))

    @torch.no_grad()
    def collect(self) -> Rollout:
        """Act, step, store."""
        seen, acted, log_probs, rewards, values, carry = [], [], [], [], [], []
        for _ in range(STEPS):
            distribution = self.distribution(self.seen)
            action = distribution.sample()
            seen.append(self.seen)
            acted.append(action)
            log_probs.append(distribution.log_prob(action).sum(-1))
            values.append(self.values(self.seen))
            observations, reward, terminated, truncated, infos = self.env.step(action.numpy())
            gained = torch.from_numpy(REWARD_SCALE * reward).float()
            if truncated.any():
                last = self.values(torch.from_numpy(infos["final_obs"]))
                gained += DISCOUNT * last * torch.from_numpy(truncated & ~terminated)
            rewards.append(gained)
            done = terminated | truncated
            carry.append(torch.from_numpy(~done).float())
            self.sums += reward
            self.finished += list(self.sums[done])
            self.sums[done] = 0.0
            self.seen = torch.from_numpy(observations)
        values.append(self.values(self.seen))
        advantage = torch.zeros(COPIES)
        advantages: list[Tensor] = []
        for t in reversed(range(STEPS)):
            error = rewards[t] + DISCOUNT * carry[t] * values[t + 1] - values[t]
            advantage = error + DISCOUNT * TRACE * carry[t] * advantage
            advantages.insert(0, advantage)
        gains = torch.cat(advantages)
        return Rollout(
            torch.cat(seen),
            torch.cat(acted),
            torch.cat(log_probs),
            gains,
            gains + torch.cat(values[:-1]),
        )

    def update(self, rollout: Rollout) -> None:
        """A few epochs of clipped steps; the learning rate follows the KL divergence."""
        gains = (rollout.advantages - rollout.advantages.mean()) / rollout.advantages.std()
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(gains)).split(ROWS):
                distribution = self.distribution(rollout.observations[rows])
                log_prob = distribution.log_prob(rollout.actions[rows]).sum(-1)
                change = log_prob - rollout.log_probs[rows]
                ratio, gain = change.exp(), gains[rows]
                surrogate = torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
                error = self.values(rollout.observations[rows]) - rollout.returns[rows]
                loss = 0.5 * error.square().mean() - surrogate.mean()
                self.optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
                self.optimiser.step()
                divergence = float((ratio - 1 - change).detach().mean())
                rate = self.optimiser.param_groups[0]
                if divergence > 2 * TARGET_KL:
                    rate["lr"] = max(1e-5, rate["lr"] / 1.5)
                elif divergence < TARGET_KL / 2:
                    rate["lr"] = min(3e-3, rate["lr"] * 1.1)


def train(body: str, size: str, minutes: float, seed: int) -> str:
    """Train one candidate; a row of the table with its last 100 returns at three times."""
    learner = Learner(body, SIZES[size], seed)
    start, steps, marks = time.monotonic(), 0, []
    for part in (1 / 3, 2 / 3, 1.0):
        while time.monotonic() - start < part * 60 * minutes:
            learner.update(learner.collect())
            steps += COPIES * STEPS
        marks.append(float(np.mean(learner.finished[-100:])) if learner.finished else math.nan)
    count = sum(p.numel() for p in learner.policy.parameters())
    rate = steps / (time.monotonic() - start)
    cells = " | ".join(f"{mark:.0f}" for mark in marks)
    return f"| {size} | {body} | {seed} | {count:,} | {rate:.0f} | {steps:,} | {cells} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--body", default="3d_cheetah_14_full")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--minutes", type=float, default=10.0, help="of training, each")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    thirds = " | ".join(f"return after {args.minutes * k / 3:.3g} min" for k in (1, 2, 3))
    print(f"| size | body | seed | learned numbers | steps/s | steps | {thirds} |")
    print("| --- | --- | ---: |" + " ---: |" * 6)
    for size in args.sizes:
        print(train(args.body, size, args.minutes, args.seed), flush=True)


if __name__ == "__main__":
    main()
