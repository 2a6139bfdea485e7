"""A replay buffer that stores each observation once and puts n steps together when sampled.

Each body has a ring of records with an equal share of the capacity, in memory or in a file that
outlives a kill. A record is an observation, without what is constant in it, the action that
followed, its reward, and the serial number of the record with the next observation. Where an
episode ends its true last observation has a record of its own, without an action. So n steps are
n times from a record to the next.

Rings are longer than what is sampled, by a slack: what a checkpoint refers to stays as it is while
at least `slack` further transitions are added, and a run that was killed and goes back to its
checkpoint samples the same numbers, to the bit. Imports no torch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.algorithms.record_ring import RecordRing, check_sizes, make_room
from sgrl.envs.columns import varying_columns
from sgrl.morphology import Morphology

Array = NDArray[np.float32]
RECORDS_PER_STEP = 2
"""At most: one with the action and, if the episode ends, one with its last observation."""


@dataclass(frozen=True)
class Sample:
    """Transitions of n steps or fewer, as many of each body, body after body; padded with zeros."""

    columns: Array
    """(rows, columns): what was observed, see `envs.columns`."""
    actions: Array
    """(rows, actuated motors)."""
    rewards: Array
    """(rows,): the discounted sum of n rewards."""
    discounts: Array
    """(rows,): what the value of the last observation counts; 0 where the body fell."""
    last_columns: Array
    """(rows, columns): n steps later, or at the end of the episode if that comes first."""


def record_type(body: Morphology) -> np.dtype[Any]:
    """What a record of a body holds."""
    fields = [
        ("serial", np.int64),
        ("next", np.int64),
        ("columns", np.float32, (len(varying_columns(body)),)),
        ("actions", np.float32, (int(body.actuated.sum()),)),
        ("reward", np.float32),
        ("terminated", np.bool_),
        ("is_last", np.bool_),
    ]
    return np.dtype(fields, align=True)


def bytes_per_step(body: Morphology) -> int:
    """Bytes of a transition in memory or on the disk."""
    return record_type(body).itemsize


class _Ring(RecordRing):
    """The newest records of one body."""

    def __init__(self, body: Morphology, rows: int, steps: int, path: Path | None) -> None:
        super().__init__(record_type(body), rows, path)
        self.name = body.name
        self.columns, self.actuated = varying_columns(body), np.flatnonzero(body.actuated)
        self.starts: deque[int] = deque(maxlen=steps)
        """Serial numbers at which the latest steps began: their ends are not known yet."""

    def add(
        self,
        obs: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        final_obs: NDArray[Any],
        terminated: NDArray[np.bool_],
        done: NDArray[np.bool_],
    ) -> None:
        """A step of the body's environments (n, ...)."""
        envs, ends = len(obs), np.flatnonzero(done)
        records = np.zeros(envs + len(ends), self.records.dtype)
        records["columns"][:envs] = obs[:, self.columns]
        records["columns"][envs:] = final_obs[ends][:, self.columns]
        records["actions"][:envs] = actions[:, self.actuated]
        records["reward"][:envs] = rewards
        records["terminated"][:envs] = terminated
        records["is_last"][envs:] = True
        # The next step's observations will follow all records of this one.
        after = self.added + len(records) + np.arange(envs)
        after[ends] = self.added + envs + np.arange(len(ends))
        records["next"][:envs] = after
        self.starts.append(self.added)
        self.append(records)

    def window(self, share: int) -> tuple[int, int]:
        """First and end of the serial numbers, from 0, that may be sampled."""
        full = len(self.starts) == self.starts.maxlen
        return max(0, self.added - share), self.starts[0] if full else 0

    def draw(
        self, rows: int, share: int, gamma: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, Array]:
        """Indices of first and last records (rows,), returns and discounts."""
        first, end = self.window(share)
        serials = rng.integers(first, end, rows)
        # Nothing was done at the end of an episode.
        while (idle := self.records["is_last"][serials % self.rows]).any():
            serials[idle] = rng.integers(first, end, int(idle.sum()))
        start = serials % self.rows
        now, live = start.copy(), np.ones(rows, np.bool_)
        rewards, discounts = np.zeros(rows), np.ones(rows)
        for _ in range(self.starts.maxlen or 1):
            # R += gamma^k r_k, while the episode goes on
            rewards += discounts * self.records["reward"][now] * live
            discounts[live] *= gamma
            discounts[self.records["terminated"][now]] = 0.0
            now = np.where(live, self.records["next"][now] % self.rows, now)
            live = live & ~self.records["is_last"][now]
        return start, now, rewards.astype(np.float32), discounts.astype(np.float32)


class ReplayBuffer:
    """The newest transitions of some bodies, `capacity` in all, an equal share for each.

    With a folder they live in memory-mapped files there, and `load_state_dict` finds them again
    after a restart. `slack` more are kept than are sampled, counted over all bodies. Steps must be
    added one after the other: what is observed next is taken from the next one.
    """

    def __init__(
        self,
        bodies: Sequence[Morphology],
        capacity: int,
        return_steps: Sequence[int],
        gammas: Sequence[float],
        *,
        folder: Path | None = None,
        slack: int = 0,
    ) -> None:
        """`return_steps` and `gammas` of each body: n, and the discount of a step."""
        self.bodies = tuple(bodies)
        check_sizes(len(self.bodies), capacity, slack)
        self.share = capacity // len(self.bodies)
        """Records of a body that are sampled, at most."""
        rows = self.share + RECORDS_PER_STEP * -(-slack // len(self.bodies))
        kinds = [record_type(body) for body in self.bodies]
        what = f"a replay buffer of {capacity:,} transitions"
        self.num_bytes = make_room(kinds, rows, folder, what)
        """Bytes of the full buffer."""
        self._gammas = tuple(gammas)
        self._rings = [
            _Ring(body, rows, n, None if folder is None else folder / f"{i:02}_{body.name}.ring")
            for i, (body, n) in enumerate(zip(self.bodies, return_steps, strict=True))
        ]
        self.num_columns = max(len(ring.columns) for ring in self._rings)
        """Columns of an observation of the largest body."""
        self.num_actuated = max(len(ring.actuated) for ring in self._rings)
        """Actuated motors of the body that has most."""

    def add(
        self,
        body_index: NDArray[np.intp],
        obs: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        final_obs: NDArray[Any],
        terminated: NDArray[np.bool_],
        done: NDArray[np.bool_],
    ) -> None:
        """Store a step of all environments: arrays (num_envs, ...), as `learner.Step` has them."""
        step = (obs, actions, rewards, final_obs, terminated, done)
        for index, ring in enumerate(self._rings):
            own = body_index == index
            ring.add(*(array[own] for array in step))

    def __len__(self) -> int:
        """Records that may be sampled of the body that has fewest."""
        windows = (ring.window(self.share) for ring in self._rings)
        return max(0, min(end - first for first, end in windows))

    def sample(self, rows: int, rng: np.random.Generator) -> Sample:
        """`rows` transitions of each body, drawn uniformly with replacement."""
        if not len(self):
            raise ValueError("nothing to sample: too few steps were added")
        total = rows * len(self.bodies)
        columns, last_columns = np.zeros((2, total, self.num_columns), np.float32)
        actions = np.zeros((total, self.num_actuated), np.float32)
        rewards, discounts = np.zeros((2, total), np.float32)
        for index, (ring, gamma) in enumerate(zip(self._rings, self._gammas, strict=True)):
            own = slice(index * rows, (index + 1) * rows)
            first, last, rewards[own], discounts[own] = ring.draw(rows, self.share, gamma, rng)
            records = ring.records[first]
            columns[own, : len(ring.columns)] = records["columns"]
            actions[own, : len(ring.actuated)] = records["actions"]
            last_columns[own, : len(ring.columns)] = ring.records["columns"][last]
        return Sample(columns, actions, rewards, discounts, last_columns)

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
            "starts": [list(ring.starts) for ring in self._rings],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back, in the same buffer or with its files opened again, to a `state_dict`."""
        now = self.state_dict()
        if any(list(state[key]) != now[key] for key in ("bodies", "rows")):
            raise ValueError("this state is of a replay buffer of other bodies or another size")
        for ring, added in zip(self._rings, state["added"], strict=True):
            ring.check_holds(added, self.share, ring.name)
        for ring, added, starts in zip(self._rings, state["added"], state["starts"], strict=True):
            ring.added = added
            ring.starts.clear()
            ring.starts.extend(starts)
