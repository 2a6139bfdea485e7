"""What a training reports: tallies of episodes, losses and time, and where rows of them go.

Everything but the columns that begin with `wall/` is a function of the settings: a run that
was killed and resumed writes the same rows.
"""

from __future__ import annotations

import csv
import importlib
import io
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgrl.files import SafeFolder
from sgrl.morphology import Morphology

RECENT_EPISODES = 10
"""Episodes of each body that a mean is over, or the number of its environments if that is more."""
ACTIVITIES = ("sim", "act", "sample", "update", "eval", "other")
"""Where the time goes: physics, acting, mini-batches, gradient steps, evaluating, all else."""
OLD_COLUMNS = {
    "q": "q_mean",
    "critic_grad": "critic_grad_norm",
    "actor_grad": "actor_grad_norm",
    "kl": "approx_kl",
    "clipped": "clip_fraction",
    "spread": "std",
    "policy_grad": "policy_grad_norm",
    "value_grad": "value_grad_norm",
}
"""Names that columns of metrics.csv had, and those they have now."""

Row = dict[str, float | int | None]


class Episodes:
    """Returns and lengths of the episodes that go on, and of the latest that ended."""

    def __init__(self, bodies: Sequence[Morphology], body_index: NDArray[np.intp]) -> None:
        self.bodies = tuple(bodies)
        self._body_index = body_index
        self._returns = np.zeros(len(body_index))
        self._lengths = np.zeros(len(body_index), np.int64)
        window = max(RECENT_EPISODES, len(body_index) // len(self.bodies))
        self._recent = np.zeros((len(self.bodies), window, 2))
        self._ended = np.zeros(len(self.bodies), np.int64)

    @property
    def count(self) -> int:
        """Episodes that have ended."""
        return int(self._ended.sum())

    def step(self, rewards: NDArray[np.float64], done: NDArray[np.bool_]) -> None:
        """A step of all environments: rewards (num_envs,), and whose episode it ended."""
        self._returns += rewards
        self._lengths += 1
        for row in np.flatnonzero(done):
            body = self._body_index[row]
            place = self._ended[body] % self._recent.shape[1]
            self._recent[body, place] = self._returns[row], self._lengths[row]
            self._ended[body] += 1
        self._returns[done] = 0.0
        self._lengths[done] = 0

    def recent(self) -> dict[str, tuple[float, float]]:
        """Mean return and length of each body's latest episodes, if one has ended."""
        means = {}
        for body, recent, ended in zip(self.bodies, self._recent, self._ended, strict=True):
            if ended:
                mean = recent[:ended].mean(axis=0)
                means[body.name] = (float(mean[0]), float(mean[1]))
        return means

    def recent_by_family(self) -> dict[str, float]:
        """Mean of the recent returns of a family's bodies."""
        recent, families = self.recent(), {}
        for family in dict.fromkeys(body.family for body in self.bodies):
            names = [body.name for body in self.bodies if body.family == family]
            known = [recent[name][0] for name in names if name in recent]
            if known:
                families[str(family)] = float(np.mean(known))
        return families

    def row(self) -> Row:
        """Columns of the metrics; all bodies count the same in the overall ones."""
        recent = self.recent()
        row: Row = {"episodes": self.count}
        for place, name in enumerate(("return", "length")):
            known = [means[place] for means in recent.values()]
            row[name] = float(np.mean(known)) if known else None
            for body in self.bodies:
                own = recent.get(body.name)
                row[f"{name}/{body.name}"] = None if own is None else own[place]
        return row

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Arrays that `load_state_dict` takes back."""
        state = (self._returns, self._lengths, self._recent, self._ended)
        names = ("returns", "lengths", "recent", "ended")
        return {name: array.copy() for name, array in zip(names, state, strict=True)}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to what `state_dict` gave."""
        self._returns[:] = state["returns"]
        self._lengths[:] = state["lengths"]
        self._recent[:] = state["recent"]
        self._ended[:] = state["ended"]


class Losses:
    """Means of what updates report, since the last row."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._sums: dict[str, tuple[float, int]] = dict.fromkeys(self._names, (0.0, 0))

    def add(self, reported: Mapping[str, float]) -> None:
        """What one update reported; not every one reports everything."""
        for name, value in reported.items():
            total, count = self._sums[name]
            self._sums[name] = (total + value, count + 1)

    def take_row(self) -> Row:
        """The means, and start anew."""
        row: Row = {
            name: total / count if count else None for name, (total, count) in self._sums.items()
        }
        self._sums = dict.fromkeys(self._names, (0.0, 0))
        return row

    def state_dict(self) -> dict[str, tuple[float, int]]:
        """What was counted, in a form that JSON keeps to the bit."""
        return dict(self._sums)

    def load_state_dict(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Go back to what `state_dict` gave."""
        self._sums = {name: (float(state[name][0]), int(state[name][1])) for name in self._names}


class Stopwatch:
    """Where the time goes. `seconds` is that of the whole run, over all its processes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._spent = dict.fromkeys(ACTIVITIES, 0.0)
        self._steps = 0
        self._last = time.perf_counter()

    def start(self, steps: int, seconds: float) -> None:
        """Start to count, at so many steps and after so many seconds of earlier processes."""
        self.seconds, self._steps = seconds, steps
        self._last = time.perf_counter()

    def lap(self, activity: str) -> None:
        """Book the time since the last lap."""
        now = time.perf_counter()
        self._spent[activity] += now - self._last
        self.seconds += now - self._last
        self._last = now

    def take_row(self, steps: int) -> Row:
        """Columns of the metrics since the last row, and start anew."""
        total = sum(self._spent.values())
        row: Row = {
            "wall/seconds": self.seconds,
            "wall/steps_per_second": (steps - self._steps) / total if total else None,
            **{f"wall/{name}": spent for name, spent in self._spent.items()},
        }
        self._spent = dict.fromkeys(ACTIVITIES, 0.0)
        self._steps = steps
        return row


class MetricsFile:
    """metrics.csv: rows are appended whole; resuming cuts off what came after a checkpoint."""

    def __init__(self, path: Path, size: int = 0) -> None:
        """`size`: bytes to keep of what is there; of fewer than that, the whole rows stay."""
        descriptor = SafeFolder(path.parent).open(path.name, os.O_RDWR | os.O_CREAT)
        self._file = open(descriptor, "r+b")  # noqa: SIM115 (until close)
        there = os.fstat(descriptor).st_size
        self.is_short = there < size
        """Whether rows are gone that a checkpoint knew of."""
        if self.is_short:
            size = self._file.read().rfind(b"\n") + 1
        self._file.truncate(size)
        self._file.seek(size)
        self.size = size

    def append(self, row: Row) -> None:
        """Write a row, with its names before the first; nothing stays for None."""
        text = io.StringIO()
        table = csv.DictWriter(text, fieldnames=list(row), lineterminator="\n")
        if self.size == 0:
            table.writeheader()
        table.writerow({name: "" if value is None else repr(value) for name, value in row.items()})
        data = text.getvalue().encode()
        self._file.write(data)
        self._file.flush()
        self.size += len(data)

    def sync(self) -> None:
        """Wait until the disk has it."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # of a row that did not fit, which `append` has told
            self._file.close()


class Board:
    """The same rows for TensorBoard and, if asked for, Weights & Biases."""

    def __init__(
        self, folder: Path, steps: int, *, wandb: bool, name: str, settings: dict[str, Any]
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Untyped in torch. Rows after the checkpoint that a run resumes from are hidden.
        make: Any = SummaryWriter
        self._writer = make(str(folder), purge_step=steps + 1)
        self._wandb: Any = None
        if wandb:
            service = importlib.import_module("wandb")
            self._wandb = service.init(
                project="sgrl", id=name, name=name, resume="allow", config=settings
            )

    def append(self, row: Row) -> None:
        """A row, at its `steps`."""
        known = {name: value for name, value in row.items() if value is not None}
        steps = known.pop("steps")
        for name, value in known.items():
            self._writer.add_scalar(name, value, steps)
        if self._wandb is not None:
            self._wandb.log(known, step=steps)

    def close(self) -> None:
        """Write what is left, and end the run of Weights & Biases."""
        with suppress(OSError):  # the rows are in metrics.csv; the disk may be full
            self._writer.close()
        if self._wandb is not None:
            self._wandb.finish()
