"""Policies of other runs that a learner learns from, and a buffer of what they would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sgrl.algorithms.learner import Array, SourcePolicy
from sgrl.algorithms.record_ring import RecordRing, make_room
from sgrl.algorithms.weights import STD_HEAD, current_names, load_weights
from sgrl.envs.columns import varying_columns
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import make_actor, make_gaussian_actor
from sgrl.models.network import GaussianActor
from sgrl.models.normalizer import Normalizer
from sgrl.morphology import Morphology


class Teacher:
    """A policy that says what it would do, before tanh."""

    def __init__(self, source: SourcePolicy, limit: float, device: torch.device) -> None:
        """Means are cut at `limit`. ValueError if the weights don't fit the method."""
        self.bodies = {body.name for body in source.bodies}
        self._limit, self._device = limit, device
        weights = current_names(source.weights)
        self.has_std = any(STD_HEAD in name.split(".") for name in weights)
        """Whether its standard deviation depends on the state."""
        make = make_gaussian_actor if self.has_std else make_actor
        self._actor = make(
            source.method, source.preset, bodies=source.bodies, config=source.network
        )
        self._normalizer = Normalizer()
        parts: dict[str, nn.Module] = {"actor": self._actor}
        if any(name.startswith("normalizer.") for name in weights):
            parts["normalizer"] = self._normalizer
        prefixes = tuple(f"{part}." for part in parts)
        policy = {name: value for name, value in weights.items() if name.startswith(prefixes)}
        try:
            load_weights(parts, policy)
        except ValueError as error:
            raise ValueError(f"{source.name} can't teach: {error}") from None
        self._actor.to(device).eval().requires_grad_(False)
        self._normalizer.to(device)

    @torch.no_grad()
    def label(self, obs: Array, body: Morphology) -> tuple[Array, Array]:
        """Means before tanh and log-stds (rows, action_dim) for observations (rows, width).

        The log-stds are 0 if it has none.
        """
        rows = torch.from_numpy(obs[:, : body.num_limbs * FEATURES]).to(self._device)
        batch = LimbBatch.from_flat(self._normalizer(rows), body)
        if isinstance(self._actor, GaussianActor):
            mean, log_std = self._actor(batch)
        else:
            mean = self._actor.unbounded(batch)
            log_std = torch.zeros_like(mean)
        mean = mean.clamp(-self._limit, self._limit)
        return _by_row(mean, batch), _by_row(log_std, batch)


def _by_row(limbs: Tensor, batch: LimbBatch) -> Array:
    result: Array = batch.layout.actions_to_rows(limbs).cpu().numpy().astype(np.float32)
    return result


def assign_teachers(
    sources: Sequence[SourcePolicy],
    bodies: Sequence[Morphology],
    limit: float,
    device: torch.device,
) -> list[Teacher]:
    """A teacher for each body: the first source that was trained on it.

    ValueError if a body has none.
    """
    teachers = [Teacher(source, limit, device) for source in sources]
    chosen = []
    for body in bodies:
        able = [teacher for teacher in teachers if body.name in teacher.bodies]
        if not able:
            raise ValueError(
                f"no teacher was trained on {body.name}; name a run that was, or leave the body out"
            )
        chosen.append(able[0])
    return chosen


@dataclass(frozen=True)
class Labels:
    """Rows of each body, body after body; padded with zeros."""

    columns: Array
    """(rows, columns): what was observed, see `envs.columns`."""
    means: Array
    """(rows, actuated motors): before tanh."""
    log_stds: Array
    """(rows, actuated motors)."""


def _record_type(body: Morphology) -> np.dtype[Any]:
    motors = int(body.actuated.sum())
    fields = [
        ("serial", np.int64),
        ("columns", np.float32, (len(varying_columns(body)),)),
        ("means", np.float32, (motors,)),
        ("log_stds", np.float32, (motors,)),
    ]
    return np.dtype(fields, align=True)


class LabelBuffer:
    """The newest labels of some bodies, `capacity` in all, an equal share for each.

    Files and `slack` are as `ReplayBuffer` has them.
    """

    def __init__(
        self,
        bodies: Sequence[Morphology],
        capacity: int,
        *,
        folder: Path | None = None,
        slack: int = 0,
    ) -> None:
        self.bodies = tuple(bodies)
        self.share = max(1, capacity // len(self.bodies))
        """Records of a body that are sampled, at most."""
        rows = self.share + -(-slack // len(self.bodies))
        kinds = [_record_type(body) for body in self.bodies]
        self.num_bytes = make_room(kinds, rows, folder, f"a buffer of {capacity:,} labels")
        """Bytes of the full buffer."""
        self._rings = [
            RecordRing(kind, rows, None if folder is None else folder / f"{i:02}_{body.name}.ring")
            for i, (kind, body) in enumerate(zip(kinds, self.bodies, strict=True))
        ]
        self._columns = [varying_columns(body) for body in self.bodies]
        self._actuated = [np.flatnonzero(body.actuated) for body in self.bodies]

    def add(self, body_index: NDArray[np.intp], obs: Array, means: Array, log_stds: Array) -> None:
        """Store what all environments observed, (num_envs, ...), and the labels."""
        for index, ring in enumerate(self._rings):
            rows, motors = body_index == index, self._actuated[index]
            records = np.zeros(int(rows.sum()), ring.records.dtype)
            records["columns"] = obs[rows][:, self._columns[index]]
            records["means"] = means[rows][:, motors]
            records["log_stds"] = log_stds[rows][:, motors]
            ring.append(records)

    def sample(self, counts: NDArray[np.intp], rng: np.random.Generator) -> Labels:
        """So many rows of each body, drawn uniformly with replacement."""
        total, motors = int(counts.sum()), max(map(len, self._actuated))
        columns = np.zeros((total, max(map(len, self._columns))), np.float32)
        means, log_stds = np.zeros((2, total, motors), np.float32)
        end = 0
        for ring, count in zip(self._rings, counts, strict=True):
            start, end = end, end + int(count)
            serials = rng.integers(max(0, ring.added - self.share), ring.added, int(count))
            records = ring.records[serials % ring.rows]
            columns[start:end, : records["columns"].shape[1]] = records["columns"]
            means[start:end, : records["means"].shape[1]] = records["means"]
            log_stds[start:end, : records["means"].shape[1]] = records["log_stds"]
        return Labels(columns, means, log_stds)

    def flush(self) -> None:
        """Wait until the disk has all that was added. A killed process needs no flush."""
        for ring in self._rings:
            ring.flush()

    def state_dict(self) -> dict[str, Any]:
        """How far it is; what was added stays where it is."""
        return {"added": [ring.added for ring in self._rings]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back, in the same buffer or with its files opened again, to a `state_dict`."""
        triples = zip(self._rings, state["added"], self.bodies, strict=True)
        for ring, added, body in triples:
            ring.check_holds(added, self.share, body.name)
            ring.added = added
