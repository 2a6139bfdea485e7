"""PPO (Schulman et al. 2017) for every method, on one body or a mix.

All bodies count the same: advantages are normalised body by body, and the value function
learns returns in units of each body's own running mean and spread. Mini-batches hold every
body in its share. The learning rate of the policy follows the KL divergence that an update
causes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sgrl.algorithms.densities import divergences, log_densities, per_hinge
from sgrl.algorithms.descent import descend, finite, make_optimiser
from sgrl.algorithms.mirroring import Images, Mirroring, with_images
from sgrl.algorithms.ppo_config import LEARNING_RATES, PpoConfig
from sgrl.algorithms.returns import ReturnScale
from sgrl.algorithms.rollout import Rollout, generalised_advantages
from sgrl.algorithms.weights import load_weights, weights_of
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import Config, make_policy, make_value
from sgrl.models.normaliser import Normaliser
from sgrl.morphology import Morphology

REPORTS: tuple[str, ...] = (
    "policy_loss",
    "value_loss",
    "kl",
    "clipped",
    "spread",
    "learning_rate",
    "policy_grad",
    "value_grad",
)
"""What a gradient step reports."""
UNITS = "returns."
"""What the names of the return scales begin with among the weights."""
_OF_MOTORS = ("actions", "means", "moving")
"""What a mirror shows otherwise in a `Batch`, beside its rows."""


@dataclass(frozen=True)
class Batch:
    """Rows of a rollout to learn from."""

    rows: LimbBatch
    actions: Tensor
    """(rows, motors)."""
    means: Tensor
    """(rows, motors), of the policy that drew them; of images their images."""
    log_std: Tensor
    """(3,), of that policy."""
    advantages: Tensor
    """(rows,), normalised."""
    returns: Tensor
    """(rows,), in units of the value function."""
    moving: Tensor
    """(rows, motors): 1 for motors that move something, 0 for others and in the padding."""
    images: Images | None = None
    """With `mirror`: which rows are images, and of what."""
    first: bool = False
    """Of a rollout: the policy has not changed yet, so that nothing can be told from that."""


class Ppo:
    """A policy, a value function, their optimisers and the statistics that they stand on."""

    def __init__(
        self,
        method: str,
        preset: str,
        bodies: Sequence[Morphology],
        config: PpoConfig,
        *,
        device: torch.device | str = "cpu",
        network: Config | None = None,
    ) -> None:
        """`network` takes the place of the preset. Weights come from torch's global generator."""
        self.config = config
        self.bodies = tuple(bodies)
        self.device = torch.device(device)
        policy = make_policy(method, preset, bodies=bodies, config=network)
        value = make_value(method, preset, bodies=bodies, config=network)
        self.policy, self.value = policy.to(self.device), value.to(self.device)
        self.normaliser = Normaliser().to(self.device)
        self.returns = ReturnScale(self.bodies)
        self.discounts = np.array([config.discount(body) for body in self.bodies])
        # A third of the motors have no gear. To draw actions for them would only blur what
        # the others did.
        self._moving = np.zeros(
            (len(self.bodies), max(body.action_dim for body in self.bodies)), np.float32
        )
        for row, body in zip(self._moving, self.bodies, strict=True):
            row[: body.action_dim] = body.actuated
        self._mirroring = Mirroring(self.bodies) if config.mirror else None
        self._start_optimisers(config.learning_rate)
        self.updates = 0
        """Gradient steps so far."""

    def _start_optimisers(self, rate: float) -> None:
        self.policy_optimiser = make_optimiser(self.policy, rate)
        self.value_optimiser = make_optimiser(self.value, self.config.value_learning_rate)

    def _batch(self, observations: NDArray[np.float32], row_body: NDArray[np.int64]) -> LimbBatch:
        """Of raw observations (rows, width)."""
        rows = self.normaliser(torch.from_numpy(observations).to(self.device))
        bodies = self.bodies if self._mirroring is None else self._mirroring.bodies
        if len(bodies) == 1:
            return LimbBatch.from_flat(rows, bodies[0])
        return LimbBatch.from_padded(rows, bodies, row_body)

    @torch.no_grad()
    def act(
        self,
        observations: NDArray[np.float32],
        row_body: NDArray[np.int64],
        noise: np.random.Generator,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Actions (n, motors) drawn for observations (n, width), and the means; 0 in padding."""
        batch = self._batch(observations, row_body)
        means, log_std = self.policy(batch)
        spread: NDArray[np.float32] = batch.layout.actions_to_rows(log_std.exp()).cpu().numpy()
        found: NDArray[np.float32] = batch.layout.actions_to_rows(means).cpu().numpy()
        drawn = noise.standard_normal(found.shape, np.float32)
        actions: NDArray[np.float32] = found + spread * drawn * self._moving[row_body]
        return actions, found

    def seen(self, rollout: Rollout, body_index: NDArray[np.int64]) -> LimbBatch:
        """All observations of a rollout, a step after the other: (steps + 1) * copies rows.

        With `mirror` they are followed by the mirror images of all but the last step's.
        """
        steps, copies, width = rollout.observations.shape
        rows = rollout.observations.reshape(steps * copies, width)
        row_body = np.tile(body_index, steps)
        if self._mirroring is not None:
            lived, of = rows[:-copies], row_body[:-copies]
            rows = np.concatenate((rows, self._mirroring.observations(lived, of)))
            row_body = np.concatenate((row_body, self._mirroring.image_index[of]))
        return self._batch(rows, row_body)

    def advantages(
        self, rollout: Rollout, body_index: NDArray[np.int64], seen: LimbBatch
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Advantages and returns of a rollout, (steps, copies) each, as rewards count."""
        steps, copies = rollout.observations.shape[:2]
        values = self._values(seen, np.tile(body_index, steps)).reshape(steps, copies)
        next_values, last = values[1:].copy(), rollout.last_observations()
        if last.steps.size:
            row_body = body_index[last.copies]
            found = self._values(self._batch(last.observations, row_body), row_body)
            next_values[last.steps, last.copies] = found
        advantages = generalised_advantages(
            rollout.rewards + self.config.alive * ~rollout.terminated,
            values[:-1],
            next_values,
            rollout.terminated,
            rollout.done,
            self.discounts[body_index],
            self.config.trace,
        )
        return advantages, advantages + values[:-1]

    def _chunks(self, rows: int) -> list[NDArray[np.int64]]:
        """The numbers of so many rows, about a batch at a time."""
        return np.array_split(np.arange(rows), max(1, round(rows / self.config.batch)))

    @torch.no_grad()
    def _values(self, seen: LimbBatch, row_body: NDArray[np.int64]) -> NDArray[np.float64]:
        """(rows,), as rewards count."""
        found = []
        for rows in self._chunks(len(row_body)):
            batch = seen.select(rows)
            found.append(batch.layout.row_mean(self.value(batch)).cpu().numpy())
        return self.returns.from_units(np.concatenate(found).astype(np.float64), row_body)

    def batches(
        self, rollout: Rollout, body_index: NDArray[np.int64], order: np.random.Generator
    ) -> Iterator[Batch]:
        """Mini-batches of a full rollout, for as many epochs as the settings say."""
        seen = self.seen(rollout, body_index)
        advantages, returns = self.advantages(rollout, body_index, seen)
        self.returns.update(returns, body_index)
        normalised = np.empty_like(advantages)
        for body in range(len(self.bodies)):
            own = advantages[:, body_index == body]
            normalised[:, body_index == body] = (own - own.mean()) / (own.std() + 1e-8)
        steps, copies = advantages.shape
        row_body = np.tile(body_index, steps)
        flat = {
            "actions": rollout.actions.reshape(steps * copies, -1),
            "means": rollout.means.reshape(steps * copies, -1),
            "advantages": normalised.ravel().astype(np.float32),
            "returns": self.returns.to_units(returns, body_index).ravel().astype(np.float32),
            "moving": self._moving[row_body],
        }
        log_std = self.policy.log_std.detach().clone()
        if self._mirroring is not None:
            # The images have the same advantages and earn the same, and were as likely.
            image_of = self._mirroring.actions
            shown = flat | {name: image_of(flat[name], row_body) for name in _OF_MOTORS}
            shown["moving"] = np.abs(shown["moving"])
            units = self.returns.to_units(returns, self._mirroring.units[body_index])
            shown["returns"] = units.ravel().astype(np.float32)
            flat = {name: np.concatenate((own, shown[name])) for name, own in flat.items()}
        own_rows = [np.flatnonzero(row_body == body) for body in range(len(self.bodies))]
        count = max(1, round(steps * copies / self.config.batch))
        count = min(count, *map(len, own_rows))  # every batch has a row of every body
        first = True
        for _ in range(self.config.epochs):
            # Bodies in the same order and shares in every batch, which so have one layout.
            shares = [np.array_split(order.permutation(rows), count) for rows in own_rows]
            for parts in zip(*shares, strict=True):
                images = None
                if self._mirroring is not None:
                    parts = [with_images(len(row_body), part) for part in parts]
                    images = self._mirroring.find(np.concatenate(parts), row_body, self.device)
                rows = np.concatenate(parts)
                where = np.where(rows < len(row_body), rows, rows + copies)  # among those seen
                chosen = {name: array[rows] for name, array in flat.items()}
                tensors = {n: torch.from_numpy(a).to(self.device) for n, a in chosen.items()}
                yield Batch(
                    rows=seen.select(where),
                    log_std=log_std,
                    images=images,
                    first=first,
                    **tensors,
                )
                first = False

    def update(self, batch: Batch) -> dict[str, float]:
        """One gradient step of policy and value function; gives `REPORTS`.

        A loss or gradient that is not finite raises FloatingPointError before it changes any
        weight of its part.
        """
        config = self.config
        layout = batch.rows.layout
        unbounded = layout.actions_to_rows(self.policy.actor.unbounded(batch.rows))
        means = unbounded.tanh()
        log_std = self.policy.log_std
        now = log_densities(batch.actions, means, log_std)
        before = log_densities(batch.actions, batch.means, batch.log_std)
        ratio = ((now - before) * batch.moving).sum(dim=1).exp()
        bounded = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
        gain = torch.minimum(ratio * batch.advantages, bounded * batch.advantages)
        excess = (unbounded.square() * batch.moving).sum(dim=1) / batch.moving.sum(dim=1)
        policy_loss = (config.restraint * excess - gain).mean() - config.entropy * log_std.mean()
        if batch.images is not None:
            policy_loss = policy_loss + config.mirror * self._unlikeness(batch, means)
        value = layout.row_mean(self.value(batch.rows))
        value_loss = 0.5 * (value - batch.returns).square().mean()
        with torch.no_grad():
            # Of what was lived through: in the mirror the policy may never have been its image.
            lived = slice(None) if batch.images is None else batch.images.lived
            kl = divergences(batch.means, batch.log_std, means, log_std)
            kl = (kl * batch.moving).sum(dim=1)[lived].mean()
            clipped = ((ratio[lived] - 1.0).abs() > config.clip).float().mean()
        report = {
            "policy_loss": finite(policy_loss, "policy's loss"),
            "value_loss": finite(value_loss, "value function's loss"),
            "kl": finite(kl, "KL divergence"),
            "clipped": clipped.item(),
            "spread": log_std.detach().exp().mean().item(),
        }
        if not batch.first:
            self._follow_divergence(report["kl"])
        report["learning_rate"] = self.policy_optimiser.param_groups[0]["lr"]
        clip = config.gradient_clip
        report["policy_grad"] = descend(
            policy_loss, self.policy_optimiser, clip, "policy's gradient"
        )
        report["value_grad"] = descend(
            value_loss, self.value_optimiser, clip, "value function's gradient"
        )
        self.updates += 1
        return report

    def _unlikeness(self, batch: Batch, means: Tensor) -> Tensor:
        """How far the policy in the mirror is from the image of what it does: the divergence of
        each row, or its logarithm where it is large, so that rows far from their images do not
        drown what was learned from the advantages.

        Advantages alone would not lead it there: actions that are far from its own are so unlikely
        that they hardly count.
        """
        assert batch.images is not None, "of a batch with images"
        images = batch.images
        model = means.detach()[images.lived].gather(1, images.sources) * images.signs
        spread = per_hinge(self.policy.log_std.detach(), means.shape[1])
        away = (means[images.rows] - model) * (-spread).exp()
        return (0.5 * away.square() * batch.moving[images.rows]).sum(dim=1).log1p().mean()

    def _follow_divergence(self, kl: float) -> None:
        """Slower where the policy has changed too much, faster where too little."""
        group = self.policy_optimiser.param_groups[0]
        rate: float = group["lr"]
        if kl > 2.0 * self.config.kl:
            rate /= 1.5
        elif kl < 0.5 * self.config.kl:
            rate *= 1.1
        group["lr"] = min(max(rate, LEARNING_RATES[0]), LEARNING_RATES[1])

    def observe(self, rollout: Rollout, limb_mask: NDArray[np.bool_]) -> None:
        """Count what was seen in a rollout in the statistics of observations.

        After the update, so that it knows the policy that acted as it was.
        """
        limbs = rollout.observations[:-1].reshape(-1, *limb_mask.shape, FEATURES)[:, limb_mask]
        self.normaliser.update(torch.from_numpy(limbs.reshape(-1, FEATURES)).to(self.device))

    def _parts(self) -> dict[str, nn.Module]:
        return {
            "actor": self.policy.actor,
            "spread": _Spread(self.policy.log_std),
            "value": self.value,
            "normaliser": self.normaliser,
        }

    def weights(self) -> dict[str, Tensor]:
        """Copies of the weights on the CPU, by part: actor, spread, value and normaliser, and
        returns, the units in which value counts."""
        units = {f"{UNITS}{name}": own for name, own in self.returns.state_dict().items()}
        return weights_of(self._parts()) | units

    def training_state(self) -> dict[str, Any]:
        """Copies of all else that coming updates depend on."""
        return {
            "policy_optimiser": copy.deepcopy(self.policy_optimiser.state_dict()),
            "value_optimiser": copy.deepcopy(self.value_optimiser.state_dict()),
            "updates": self.updates,
        }

    def load(
        self, weights: Mapping[str, Tensor], training_state: Mapping[str, Any] | None = None
    ) -> None:
        """Take over weights, and go on from a training state or, without one, start from them.

        They may be of other bodies. ValueError, and nothing changed, if they are of another method
        or size.
        """
        units = {n.removeprefix(UNITS): own for n, own in weights.items() if n.startswith(UNITS)}
        load_weights(
            self._parts(), {n: own for n, own in weights.items() if not n.startswith(UNITS)}
        )
        self.returns.load_state_dict(units)
        if training_state is None:
            # Adam has to find out anew which way is steep: at the rate for untrained weights its
            # first steps would undo much of what these have learned.
            self._start_optimisers(LEARNING_RATES[0])
            self.updates = 0
            return
        self.policy_optimiser.load_state_dict(training_state["policy_optimiser"])
        self.value_optimiser.load_state_dict(training_state["value_optimiser"])
        self.updates = training_state["updates"]


class _Spread(nn.Module):
    """The policy's spread as a part of its own, beside the actor that `load_policy` reads."""

    def __init__(self, log_std: nn.Parameter) -> None:
        super().__init__()
        self.log_std = log_std
