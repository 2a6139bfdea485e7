"""PPO (Schulman et al. 2017) for every method, on one body or a mix.

All bodies count the same: advantages are normalized body by body, and the value function
learns returns in units of each body's own running mean and standard deviation. Mini-batches hold
every body in its share. The learning rate of the policy follows the KL divergence that an update
causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sgrl.algorithms.augmentation import MirrorAugmentation
from sgrl.algorithms.learner import Array, Clock, Learner, Report, Setup, Step
from sgrl.algorithms.optimizer import (
    check_finite,
    load_optimizer_state,
    make_optimizer,
    optimizer_state,
    optimizer_step,
)
from sgrl.algorithms.ppo_config import LEARNING_RATES, PPOConfig
from sgrl.algorithms.ppo_losses import SAVED_SECONDS, PPOLosses
from sgrl.algorithms.return_normalizer import ReturnNormalizer
from sgrl.algorithms.rollout_buffer import (
    MIRRORED,
    Batch,
    RolloutBuffer,
    Transitions,
    generalized_advantages,
)
from sgrl.algorithms.speed import Speed
from sgrl.algorithms.weights import current_names, load_portable, load_weights, weights_of
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import MIRROR, make_gaussian_policy, make_value
from sgrl.models.normalizer import Normalizer

RETURNS = "return_normalizer."
"""What the names of the statistics of returns begin with among the weights."""


class PPO(Learner):
    """A policy, a value function, their optimizers and statistics, and a rollout buffer."""

    name: ClassVar[str] = "ppo"
    Config: ClassVar[type] = PPOConfig
    metrics = (
        "policy_loss",
        "value_loss",
        "approx_kl",
        "clip_fraction",
        "std",
        "learning_rate",
        "policy_grad_norm",
        "value_grad_norm",
    )

    def __init__(self, config: PPOConfig, setup: Setup) -> None:
        """Weights come from torch's global generator."""
        self.config, self.layout = config, setup.layout
        self.bodies = setup.bodies
        self.device = torch.device(setup.device)
        how: dict[str, Any] = {"bodies": setup.bodies, "config": setup.network}
        self.policy = make_gaussian_policy(setup.method, setup.preset, **how).to(self.device)
        self.value = make_value(setup.method, setup.preset, **how).to(self.device)
        self.normalizer = Normalizer().to(self.device)
        # Where observations are mirrored they are read as they are.
        self.normalizes = not setup.method.endswith(MIRROR)
        """Whether statistics of observations are counted; not under a policy that has none."""
        self.return_normalizer = ReturnNormalizer(self.bodies)
        self.gamma = np.array(config.discounts(self.bodies))
        # A third of the motors have no gear. To draw actions for them would only blur what
        # the others did.
        num_envs, action_dim = setup.layout.action_mask.shape
        self._actuated = np.zeros((len(self.bodies), action_dim), np.float32)
        for row, body in zip(self._actuated, self.bodies, strict=True):
            row[: body.action_dim] = body.actuated
        self._augmentation = MirrorAugmentation(self.bodies) if config.mirror_loss_coef else None
        self._start_optimizers(config.learning_rate)
        width = setup.layout.limb_mask.shape[1] * FEATURES
        self.rollout = RolloutBuffer(config.n_steps, num_envs, width, action_dim)
        acting, order = np.random.SeedSequence([setup.seed, 2]).spawn(2)
        self.acting, self.order = map(np.random.default_rng, (acting, order))
        self.updates = 0
        """Gradient steps so far."""
        updates = setup.steps * config.n_epochs / config.batch_size
        speed = Speed.choose(
            config.compile,
            "float32",
            updates,
            self.device,
            minutes=setup.minutes,
            saved_seconds=SAVED_SECONDS * config.batch_size,
        )
        self.losses = PPOLosses(self.policy, self.value, config, speed)

    def _start_optimizers(self, learning_rate: float) -> None:
        self.policy_optimizer = make_optimizer(self.policy, learning_rate)
        self.value_optimizer = make_optimizer(self.value, self.config.value_learning_rate)

    def describe(self) -> str:
        steps, num_envs = self.rollout.rewards.shape
        return f"an update every {steps * num_envs:,} steps, {self.losses.speed.describe()}"

    # Acting.

    @torch.no_grad()
    def act(self, obs: Array) -> tuple[Array, Mapping[str, Array]]:
        body_index = self.layout.body_index
        batch = self._batch(obs, body_index)
        mean, log_std = self.policy(batch)
        std: Array = batch.layout.actions_to_rows(log_std.exp()).cpu().numpy()
        means: Array = batch.layout.actions_to_rows(mean).cpu().numpy()
        noise = self.acting.standard_normal(means.shape, np.float32)
        return means + std * noise * self._actuated[body_index], {"means": means}

    def _batch(self, obs: Array, body_index: NDArray[np.intp]) -> LimbBatch:
        """Raw observations (rows, width), normalized, of bodies (rows,)."""
        rows = self.normalizer(torch.from_numpy(obs).to(self.device))
        bodies = self.bodies if self._augmentation is None else self._augmentation.bodies
        if len(bodies) == 1:
            return LimbBatch.from_flat(rows, bodies[0])
        return LimbBatch.from_padded(rows, bodies, body_index)

    def store(self, step: Step) -> None:
        self.rollout.add(step)

    # Updates.

    def update(self, report: Report, clock: Clock, should_stop: Callable[[], bool]) -> None:
        if not self.rollout.full:
            return
        for batch in self.batches():
            report(self.gradient_step(batch))
        self._update_normalizer()
        self.rollout.clear()
        clock.lap("update")

    def batches(self) -> Iterator[Batch]:
        """Mini-batches of the full rollout, for as many epochs as the settings say."""
        config, body_index = self.config, self.layout.body_index
        observed = self._observed()
        advantages, returns = self.advantages(observed)
        self.return_normalizer.update(returns, body_index)
        normalized = np.empty_like(advantages)
        for body in range(len(self.bodies)):
            values = advantages[:, body_index == body]
            normalized[:, body_index == body] = (values - values.mean()) / (values.std() + 1e-8)
        steps, num_envs = advantages.shape
        rows_body = np.tile(body_index, steps)
        columns = {
            "actions": self.rollout.actions.reshape(steps * num_envs, -1),
            "means": self.rollout.means.reshape(steps * num_envs, -1),
            "advantages": _flat(normalized),
            "returns": _flat(self.return_normalizer.normalize(returns, body_index)),
            "actuated": self._actuated[rows_body],
        }
        if self._augmentation is not None:
            # The images have the same advantages and rewards, and were as likely.
            image_of = self._augmentation.actions
            images = columns | {name: image_of(columns[name], rows_body) for name in MIRRORED}
            images["actuated"] = np.abs(images["actuated"])
            index = self._augmentation.return_index[body_index]
            images["returns"] = _flat(self.return_normalizer.normalize(returns, index))
            columns = {n: np.concatenate((column, images[n])) for n, column in columns.items()}
        log_std = self.policy.log_std.detach().clone()
        transitions = Transitions(observed, columns, rows_body, num_envs, log_std)
        yield from transitions.minibatches(
            config.batch_size, config.n_epochs, self.order, self.device, self._augmentation
        )

    def _observed(self) -> LimbBatch:
        """All observations of the rollout, a step after the other: (steps + 1) * num_envs rows.

        With augmentation they are followed by the images of all but the last step's.
        """
        steps, num_envs, width = self.rollout.obs.shape
        rows = self.rollout.obs.reshape(steps * num_envs, width)
        body_index = np.tile(self.layout.body_index, steps)
        if self._augmentation is not None:
            originals, bodies = rows[:-num_envs], body_index[:-num_envs]
            rows = np.concatenate((rows, self._augmentation.observations(originals, bodies)))
            body_index = np.concatenate((body_index, self._augmentation.image_index[bodies]))
        return self._batch(rows, body_index)

    def advantages(self, observed: LimbBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Advantages and returns of the rollout, (steps, num_envs) each, as rewards count."""
        rollout, body_index = self.rollout, self.layout.body_index
        steps, num_envs = rollout.obs.shape[:2]
        values = self._values(observed, np.tile(body_index, steps)).reshape(steps, num_envs)
        next_values, final = values[1:].copy(), rollout.final_observations()
        if final.steps.size:
            bodies = body_index[final.envs]
            final_values = self._values(self._batch(final.obs, bodies), bodies)
            next_values[final.steps, final.envs] = final_values
        advantages = generalized_advantages(
            rollout.rewards + self.config.survival_bonus * ~rollout.terminated,
            values[:-1],
            next_values,
            rollout.terminated,
            rollout.done,
            self.gamma[body_index],
            self.config.gae_lambda,
        )
        return advantages, advantages + values[:-1]

    @torch.no_grad()
    def _values(self, observed: LimbBatch, body_index: NDArray[np.intp]) -> NDArray[np.float64]:
        """V of the first rows, those of bodies (rows,), as rewards count."""
        chunks = max(1, round(len(body_index) / self.config.batch_size))
        values = []
        for rows in np.array_split(np.arange(len(body_index)), chunks):
            batch = observed.select(rows)
            values.append(batch.layout.row_mean(self.value(batch)).cpu().numpy())
        normalized = np.concatenate(values).astype(np.float64)
        return self.return_normalizer.denormalize(normalized, body_index)

    def gradient_step(self, batch: Batch) -> dict[str, float]:
        """One step of policy and value function; gives `metrics`.

        A loss or gradient that is not finite raises FloatingPointError before it changes any
        weight of its part.
        """
        policy_loss, kl, clip_fraction, value_loss = self.losses(batch)
        report = {
            "policy_loss": check_finite(policy_loss, "policy's loss"),
            "value_loss": check_finite(value_loss, "value function's loss"),
            "approx_kl": check_finite(kl, "KL divergence"),
            "clip_fraction": clip_fraction.item(),
            "std": self.policy.log_std.detach().exp().mean().item(),
        }
        if not batch.first:
            self._follow_kl(report["approx_kl"])
        report["learning_rate"] = self.policy_optimizer.param_groups[0]["lr"]
        limit = self.config.max_grad_norm
        report["policy_grad_norm"] = optimizer_step(
            policy_loss, self.policy_optimizer, limit, "policy's gradient"
        )
        report["value_grad_norm"] = optimizer_step(
            value_loss, self.value_optimizer, limit, "value function's gradient"
        )
        self.updates += 1
        return report

    def _follow_kl(self, kl: float) -> None:
        """Slower where the policy has changed too much, faster where too little."""
        group = self.policy_optimizer.param_groups[0]
        rate: float = group["lr"]
        if kl > 2.0 * self.config.desired_kl:
            rate /= 1.5
        elif kl < 0.5 * self.config.desired_kl:
            rate *= 1.1
        group["lr"] = min(max(rate, LEARNING_RATES[0]), LEARNING_RATES[1])

    def _update_normalizer(self) -> None:
        """Count in what was observed, after the update: until then the policy is as it acted."""
        if not self.normalizes:
            return
        mask = self.layout.limb_mask
        limbs = self.rollout.obs[:-1].reshape(-1, *mask.shape, FEATURES)[:, mask]
        self.normalizer.update(torch.from_numpy(limbs.reshape(-1, FEATURES)).to(self.device))

    # Saving.

    @property
    def can_checkpoint(self) -> bool:
        """Whether it is between two rollouts: then none needs to be saved."""
        return self.rollout.size == 0

    def _parts(self) -> dict[str, nn.Module]:
        return {
            "actor": self.policy.actor,
            "std": _Std(self.policy.log_std),
            "value": self.value,
            "normalizer": self.normalizer,
        }

    def weights(self) -> dict[str, Tensor]:
        returns = self.return_normalizer.state_dict().items()
        return weights_of(self._parts()) | {f"{RETURNS}{name}": sums for name, sums in returns}

    def load_weights(self, weights: Mapping[str, Tensor]) -> str:
        named, returns = _split(weights)
        anew = load_portable(self._parts(), named, optional=["std", "value", "normalizer"])
        self.normalizes = "normalizer" not in anew
        if not self.normalizes:
            anew.remove("normalizer")
        self.return_normalizer.load_state_dict(returns)
        # Adam has to find out anew which way is steep: at the rate for untrained weights its
        # first steps would undo much of what these have learned.
        self._start_optimizers(LEARNING_RATES[0])
        self.updates = 0
        return ", ".join(anew)

    def state_dict(self) -> dict[str, Any]:
        assert self.can_checkpoint, "only between two rollouts"
        return {
            "policy_optimizer": optimizer_state(self.policy_optimizer),
            "value_optimizer": optimizer_state(self.value_optimizer),
            "acting": self.acting.bit_generator.state,
            "order": self.order.bit_generator.state,
            "normalizes": self.normalizes,
            "speed": self.losses.speed.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        named, returns = _split(weights)
        load_weights(self._parts(), named)
        self.return_normalizer.load_state_dict(returns)
        load_optimizer_state(self.policy_optimizer, state["policy_optimizer"])
        load_optimizer_state(self.value_optimizer, state["value_optimizer"])
        self.acting.bit_generator.state = state["acting"]
        self.order.bit_generator.state = state["order"]
        self.normalizes, self.updates = state["normalizes"], state["updates"]
        self.losses.set_speed(Speed(**state["speed"]))


def _split(weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights of networks, and the statistics of returns."""
    named = current_names(weights)
    returns = {n.removeprefix(RETURNS): v for n, v in named.items() if n.startswith(RETURNS)}
    return {n: value for n, value in named.items() if not n.startswith(RETURNS)}, returns


def _flat(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """(steps, num_envs) to (steps * num_envs,)."""
    return values.ravel().astype(np.float32)


class _Std(nn.Module):
    """The policy's std as a part of its own, beside the actor that `load_policy` reads."""

    def __init__(self, log_std: nn.Parameter) -> None:
        super().__init__()
        self.log_std = log_std
