"""The replay buffer: transitions of several bodies, in memory or in files that outlive a kill.

Each body has a ring of its own with an equal share of the capacity, so that a small body's
transitions cost what they hold. Memory and disk are taken as records are written, not before.

Rings are longer than what is sampled, by a slack. What a checkpoint refers to therefore stays
as it is while at least `slack` further transitions are added, and a run that was killed and
goes back to its checkpoint samples the same numbers, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrl.algorithms.record_ring import RecordRing, check_sizes, make_room
from sgrl.envs.observation import FEATURES
from sgrl.morphology import Morphology


@dataclass(frozen=True)
class Transitions:
    """A mini-batch; its rows may be of different bodies, padded at the end with zeros."""

    obs: Tensor
    """(rows, width)."""
    actions: Tensor
    """(rows, action_dim)."""
    rewards: Tensor
    """(rows,)."""
    next_obs: Tensor
    """(rows, width): the true next observation, of the old episode where that ended."""
    terminated: Tensor
    """(rows,), 1 where nothing follows. An episode that was cut off by its time limit is 0."""
    body_index: NDArray[np.intp]
    """(rows,): index into the bodies."""


def transition_type(body: Morphology) -> np.dtype[Any]:
    """What the record of a body's transition holds: float32 numbers and, last, a serial number."""
    width = body.num_limbs * FEATURES
    fields = [
        ("obs", np.float32, (width,)),
        ("next_obs", np.float32, (width,)),
        ("actions", np.float32, (body.action_dim,)),
        ("reward", np.float32),
        ("terminated", np.float32),
        ("serial", np.int32),
    ]
    return np.dtype(fields)


class Replay:
    """The newest transitions of some bodies, `capacity` in all, an equal share for each.

    With a folder they live in memory-mapped files there, and `load_state_dict` finds them again
    after a restart. `slack` more are kept than are sampled, counted over all bodies, which
    are expected to be fed alike.
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
        check_sizes(len(self.bodies), capacity, slack)
        self.capacity, self.slack = capacity, slack
        self.share = capacity // len(self.bodies)
        """Transitions of a body that are sampled, at most."""
        rows = self.share + -(-slack // len(self.bodies))
        kinds = [transition_type(body) for body in self.bodies]
        what = f"a replay buffer of {capacity:,} transitions"
        self.num_bytes = make_room(kinds, rows, folder, what)
        """Bytes of the full buffer."""
        self._rings = [
            RecordRing(kind, rows, None if folder is None else folder / f"{i:02}_{body.name}.f32")
            for i, (kind, body) in enumerate(zip(kinds, self.bodies, strict=True))
        ]
        # A batch comes sorted by the number of limbs, which makes padding cheaper.
        self._order = np.argsort([body.num_limbs for body in self.bodies], kind="stable")
        self._widths = [body.num_limbs * FEATURES for body in self.bodies]
        self._action_dims = [body.action_dim for body in self.bodies]

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(bodies,): transitions of each that may be sampled."""
        return np.minimum([ring.added for ring in self._rings], self.share)

    def add(
        self,
        body_index: NDArray[np.intp],
        obs: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        next_obs: NDArray[Any],
        terminated: NDArray[Any],
    ) -> None:
        """Store transitions: arrays (n, ...), padded as the vector environment gives them."""
        for index in np.unique(body_index):
            ring, rows = self._rings[index], np.flatnonzero(body_index == index)
            records = np.empty(len(rows), ring.records.dtype)
            records["obs"] = obs[rows, : self._widths[index]]
            records["next_obs"] = next_obs[rows, : self._widths[index]]
            records["actions"] = actions[rows, : self._action_dims[index]]
            records["reward"] = rewards[rows]
            records["terminated"] = terminated[rows]
            ring.append(records)

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        device: torch.device | str = "cpu",
        body: int | None = None,
    ) -> Transitions:
        """Transitions drawn uniformly, with replacement, from all stored; or of one body."""
        order = self._order if body is None else np.array([body])
        ends = np.cumsum(self.sizes[order])
        if not ends[-1]:
            raise ValueError("nothing to sample: no transitions were added")
        drawn = np.sort(rng.integers(0, ends[-1], rows))
        stops = np.searchsorted(drawn, ends)
        starts = np.concatenate(([0], stops[:-1]))
        width = max(self._widths[i] for i in order)
        action_dim = max(self._action_dims[i] for i in order)
        table = np.zeros((rows, 2 * width + action_dim + 2), np.float32)
        body_index = np.repeat(order, stops - starts)
        for index, end, start, stop in zip(order, ends, starts, stops, strict=True):
            if start == stop:
                continue
            ring, n, m = self._rings[index], self._widths[index], self._action_dims[index]
            # What is drawn below `end` counts back from the newest.
            numbers = drawn[start:stop] + (ring.added - end)
            records = ring.records.take(numbers % ring.rows)
            part = table[start:stop]
            part[:, :n] = records["obs"]
            part[:, width : width + n] = records["next_obs"]
            part[:, 2 * width : 2 * width + m] = records["actions"]
            part[:, -2], part[:, -1] = records["reward"], records["terminated"]
        values = torch.from_numpy(table).to(device)
        return Transitions(
            obs=values[:, :width],
            actions=values[:, 2 * width : 2 * width + action_dim],
            rewards=values[:, -2],
            next_obs=values[:, width : 2 * width],
            terminated=values[:, -1],
            body_index=body_index,
        )

    def flush(self) -> None:
        """Wait until the disk has all that was added. A killed process needs no flush."""
        for ring in self._rings:
            ring.flush()

    def state_dict(self) -> dict[str, Any]:
        """How far it is; what was added stays where it is."""
        return {
            "bodies": [body.name for body in self.bodies],
            "rows": [ring.rows for ring in self._rings],
            "added": [ring.added for ring in self._rings],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back, in the same buffer or with its files opened again, to a `state_dict`."""
        now = self.state_dict()
        if any(list(state[key]) != now[key] for key in ("bodies", "rows")):
            raise ValueError("this state is of a replay buffer of other bodies or another size")
        for ring, added, body in zip(self._rings, state["added"], self.bodies, strict=True):
            ring.check_holds(added, self.share, body.name)
        for ring, added in zip(self._rings, state["added"], strict=True):
            ring.added = added
