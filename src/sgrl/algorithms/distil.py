"""Distillation of many policies into one, by DAgger (Ross et al. 2011).

The student acts, in a growing share of the environments and in the end alone; the teacher of the
body labels whatever the student meets with what it would have done. Means and standard deviations
are matched. At first all bodies have as many rows in a batch, later those that lag have more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.distil_config import DistilConfig
from sgrl.algorithms.env_actor import EnvActor
from sgrl.algorithms.equal_rows import EqualRows
from sgrl.algorithms.learner import Array, Clock, Learner, Report, Setup, Step
from sgrl.algorithms.optimizer import (
    check_finite,
    load_optimizer_state,
    make_optimizer,
    optimizer_state,
    optimizer_step,
)
from sgrl.algorithms.speed import Function, Speed, UpdateFunctions, global_precision
from sgrl.algorithms.teacher import LabelBuffer, Labels, assign_teachers
from sgrl.algorithms.weights import current_names, load_portable, load_weights, weights_of

MOST_ROWS, LEAST_ROWS = 3.0, 0.5
"""Rows of a body in a batch, as multiples of an equal share."""
COUNT_EVERY, LAST_COUNTED = 16, 4_000
"""Updates between two batches that the statistics of observations count in, and the last one."""
COUNTERS = ("steps", "env_steps", "updates", "rebalanced", "due")
"""Numbers that a checkpoint has as they are."""
LOSS_DECAY = 0.99
"""What stays of the running mean of a body's loss at an update."""


class Distil(Learner):
    """A student, and teachers of its bodies."""

    name = "distil"
    Config = DistilConfig
    metrics = (
        "imitation_loss",
        "std_loss",
        "grad_norm",
        "learning_rate",
        "student_share",
        "student_return",
    )

    def __init__(self, config: DistilConfig, setup: Setup) -> None:
        """Weights come from torch's global generator."""
        self.config, self.bodies, self.env = config, setup.bodies, setup.layout
        self.device, self.planned_steps = torch.device(setup.device), setup.steps
        self.student = EnvActor(setup)
        self.optimizer = make_optimizer(self.student.network, config.learning_rate)
        self.teachers = assign_teachers(setup.sources, self.bodies, config.label_limit, self.device)
        self.buffer = LabelBuffer(
            self.bodies, config.buffer_size, folder=setup.folder, slack=setup.slack
        )
        self._envs_of = [np.flatnonzero(self.env.body_index == i) for i in range(len(self.bodies))]
        self._knows_std = np.array([teacher.has_std for teacher in self.teachers])
        acting, sampling = np.random.SeedSequence([setup.seed, 2]).spawn(2)
        self.acting, self.sampling = map(np.random.default_rng, (acting, sampling))
        num_envs = self.env.num_envs
        self.teacher_acts = np.ones(num_envs, np.bool_)
        """(num_envs,): where a teacher acts now."""
        self.alone = np.zeros(num_envs, np.bool_)
        """(num_envs,): where the student has acted all along in this episode."""
        self.returns = np.zeros(num_envs)
        """(num_envs,): of the episodes so far."""
        self._noisy = np.arange(num_envs) % 2 == 1
        self.losses = np.ones(len(self.bodies))
        """(bodies,): running means of the imitation loss."""
        updates = (setup.steps - config.learning_starts) * config.utd_ratio
        speed = Speed.choose(
            config.compile, config.products, updates, self.device, minutes=setup.minutes
        )
        self.counts = np.full(len(self.bodies), max(2, config.batch_size // len(self.bodies)))
        """(bodies,): rows of each in a batch."""
        self._share_out(self.counts, speed)
        self.steps = self.env_steps = self.updates = 0
        self.rebalanced = 0
        """How often the rows were shared out anew."""
        self.due = 0.0
        """Updates that the transitions so far have earned and that were not made yet."""
        self._finished_returns: list[float] = []

    def describe(self) -> str:
        number = len({id(teacher) for teacher in self.teachers})
        return (
            f"{number} {'teacher' if number == 1 else 'teachers'}, "
            f"{self._functions.speed.describe()}, "
            f"labels of up to {self.buffer.num_bytes / 1e9:.2f} GB"
        )

    # Acting.

    def act(self, obs: Array) -> tuple[Array, Mapping[str, Array]]:
        config = self.config
        if self.env_steps % config.handover_steps == 0:
            drawn = self.acting.random(self.env.num_envs)
            self.teacher_acts = drawn >= self.student_share
        self.alone &= ~self.teacher_acts
        labels, log_stds = self._labels(obs)
        mean, _ = self.student.act(obs)
        actions = np.tanh(np.where(self.teacher_acts[:, None], labels, mean))
        noise = self.acting.standard_normal(actions.shape, np.float32)
        actions += np.float32(config.noise) * noise * self._noisy[:, None]
        actions = actions.clip(-1.0, 1.0) * self.student.envs.actuated
        return actions, {"labels": labels, "log_stds": log_stds}

    @property
    def student_share(self) -> float:
        """Part of the environments in which the student acts."""
        alone_at = self.config.alone_after * self.planned_steps
        return min(1.0, self.steps / alone_at) if alone_at else 1.0

    def _labels(self, obs: Array) -> tuple[Array, Array]:
        """What the teachers would do: means before tanh and log-stds (num_envs, action_dim)."""
        means, log_stds = np.zeros((2, *self.env.action_mask.shape), np.float32)
        for body, envs, teacher in zip(self.bodies, self._envs_of, self.teachers, strict=True):
            mean, log_std = teacher.label(obs[envs], body)
            means[envs, : body.action_dim], log_stds[envs, : body.action_dim] = mean, log_std
        return means, log_stds

    def store(self, step: Step) -> None:
        self.buffer.add(
            self.env.body_index, step.obs, step.extras["labels"], step.extras["log_stds"]
        )
        self.steps += len(step.rewards)
        self.env_steps += 1
        self.returns += step.rewards
        ended = step.done & self.alone
        self._finished_returns += self.returns[ended].tolist()
        self.returns[step.done] = 0.0
        self.alone[step.done] = True
        if self.steps > self.config.learning_starts:
            self.due += self.config.utd_ratio * len(step.rewards)

    # Updates.

    @property
    def pending(self) -> bool:
        return self.due >= 1.0

    def update(self, report: Report, clock: Clock, should_stop: Callable[[], bool]) -> None:
        with global_precision(self._functions.speed.products):
            while self.pending and not should_stop():
                self._rebalance()
                if not self._get_ready(should_stop):
                    return
                self.due -= 1.0
                labels = self.buffer.sample(self.counts, self.sampling)
                clock.lap("sample")
                report(self._gradient_step(labels))
                for value in self._finished_returns:
                    report({"student_return": value})
                self._finished_returns.clear()
                clock.lap("update")

    def _gradient_step(self, labels: Labels) -> dict[str, float]:
        columns, means, log_stds = (
            torch.from_numpy(part).to(self.device)
            for part in (labels.columns, labels.means, labels.log_stds)
        )
        obs = self.rows.observations(columns)
        if self.updates % COUNT_EVERY == 0 and self.updates < LAST_COUNTED:
            self.student.count(obs, self.rows)
        rate = self._learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        (error_function,) = self._functions
        errors, std_errors = error_function(obs, means, log_stds)
        # L = mean (tanh(m) - tanh(m*))^2 + c mean (log s - log s*)^2, * what the teacher does
        std_loss = (std_errors * self._std_rows).mean()
        loss = errors.mean() + self.config.std_loss_coef * std_loss
        value = check_finite(loss, "loss")
        norm = optimizer_step(loss, self.optimizer, self.config.max_grad_norm, "gradient")
        self.updates += 1
        self._track(errors.detach())
        return {
            "imitation_loss": value - self.config.std_loss_coef * std_loss.item(),
            "std_loss": std_loss.item(),
            "grad_norm": norm,
            "learning_rate": rate,
            "student_share": self.student_share,
        }

    def _errors(self, obs: Tensor, means: Tensor, log_stds: Tensor) -> tuple[Tensor, Tensor]:
        """(rows,) each: mean squared errors over a row's actuated motors."""
        products, layout = self._functions.speed.products, self.rows.layout
        mean, log_std = self.student.distribution(obs, self.rows, products)
        actuated = layout.actuated
        wanted, wanted_log_std = self.rows.actions(means), self.rows.magnitudes(log_stds)
        errors = (torch.tanh(mean) - torch.tanh(wanted)).square() * actuated
        std_errors = (log_std - wanted_log_std).square() * actuated
        motors = layout.row_sum(actuated.to(mean.dtype)).sum(-1)
        return (
            layout.row_sum(errors).sum(-1) / motors,
            layout.row_sum(std_errors).sum(-1) / motors,
        )

    def _learning_rate(self) -> float:
        """It falls in a straight line with the steps."""
        first, last = self.config.learning_rate, self.config.final_learning_rate
        return first + (last - first) * min(1.0, self.steps / self.planned_steps)

    def _track(self, errors: Tensor) -> None:
        rows = self._body_of_row
        means = np.bincount(rows, errors.cpu().numpy()) / np.bincount(rows)
        decay = 0.0 if self.updates == 1 else LOSS_DECAY
        self.losses += (1.0 - decay) * (means - self.losses)

    def _rebalance(self) -> None:
        """Give more rows to bodies whose loss is larger, now and then."""
        part = int(self.steps / self.planned_steps * (self.config.rebalances + 1))
        if part <= self.rebalanced or part > self.config.rebalances:
            return
        self.rebalanced = part
        share = self.config.batch_size / len(self.bodies)
        wanted = share * self.losses / self.losses.mean()
        counts = np.clip(wanted, LEAST_ROWS * share, MOST_ROWS * share)
        self._share_out(counts, self._functions.speed)

    def _share_out(self, counts: NDArray[Any], speed: Speed) -> None:
        """Make batches of so many rows of each body."""
        self.counts = np.maximum(2, np.round(counts)).astype(np.intp)
        self.rows = EqualRows(
            self.bodies, self.counts.tolist(), mirror=self.config.mirror, device=self.device
        )
        self._body_of_row = np.repeat(np.arange(len(self.bodies)), self.counts)
        known = self._knows_std[self._body_of_row].astype(np.float32)
        self._std_rows = torch.from_numpy(known).to(self.device)
        self._functions = UpdateFunctions(speed, self._errors)

    def _get_ready(self, should_stop: Callable[[], bool]) -> bool:
        """Compile for batches of a new shape; whether updates can be made now."""
        return self._functions.is_ready or self._functions.compile(self._call, should_stop)

    def _call(self, functions: tuple[Function, ...]) -> None:
        """Call what updates call, changing nothing."""
        (error_function,) = functions
        rows = len(self._body_of_row)
        obs = torch.zeros(rows, self.rows.num_columns, device=self.device)
        labels = torch.zeros(rows, self.rows.num_actuated, device=self.device)
        errors, std_errors = error_function(self.rows.observations(obs), labels, labels)
        (errors + std_errors).sum().backward()
        self.optimizer.zero_grad()

    # Saving.

    def flush(self) -> None:
        self.buffer.flush()

    def weights(self) -> dict[str, Tensor]:
        return weights_of(self.student.parts())

    def load_weights(self, weights: Mapping[str, Tensor]) -> str:
        anew = load_portable(self.student.parts(), weights, optional=["normalizer"])
        self.optimizer = make_optimizer(self.student.network, self.config.learning_rate)
        return ", ".join(anew)

    def state_dict(self) -> dict[str, Any]:
        return {
            "optimizer": optimizer_state(self.optimizer),
            "speed": self._functions.speed.state_dict(),
            "buffer": self.buffer.state_dict(),
            "acting": self.acting.bit_generator.state,
            "sampling": self.sampling.bit_generator.state,
            "teacher_acts": self.teacher_acts.copy(),
            "alone": self.alone.copy(),
            "returns": self.returns.copy(),
            "losses": self.losses.copy(),
            "counts": self.counts.copy(),
            "finished_returns": list(self._finished_returns),
            **{name: getattr(self, name) for name in COUNTERS},
        }

    def load_state_dict(self, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        load_weights(self.student.parts(), current_names(weights))
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.buffer.load_state_dict(state["buffer"])
        self.acting.bit_generator.state = state["acting"]
        self.sampling.bit_generator.state = state["sampling"]
        for name in ("teacher_acts", "alone", "returns", "losses"):
            getattr(self, name)[...] = state[name]
        self._share_out(state["counts"], Speed(**state["speed"]))
        self._finished_returns = list(state["finished_returns"])
        for name in COUNTERS:
            setattr(self, name, state[name])
