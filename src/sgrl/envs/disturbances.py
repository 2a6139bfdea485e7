"""What makes an episode harder than its task: floor, mass, late motors, noise and pushes.

`LEVELS` is the table of them. An environment is made with levels, which hold for every episode, or
reset with some, which hold for the episode that begins. Without any, nothing here is computed.
Random numbers come from a stream of their own, so that an episode starts the same with and without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from sgrl.envs import observation as layout
from sgrl.envs.bounds import numbers, shown
from sgrl.envs.streams import Streams, to_normal

if TYPE_CHECKING:
    from mujoco.batch import Batch

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Level:
    """A disturbance: its number where there is none of it, its bounds, and what it is."""

    none: float
    least: float
    most: float
    meaning: str


LEVELS = {
    "friction": Level(1.0, 0.05, 20.0, "factor of the sliding friction of all contacts"),
    "mass": Level(1.0, 0.1, 10.0, "factor of the mass and inertia of all limbs"),
    "motor_delay": Level(0.0, 0.0, 10.0, "steps from an action to its torque"),
    "observation_noise": Level(0.0, 0.0, 10.0, "factor of the noise in `NOISE`"),
    "push": Level(0.0, 0.0, 20.0, "m/s that a push adds to the whole body's velocity, sideways"),
    "push_interval": Level(2.0, 0.01, 1000.0, "seconds from one push to the next"),
}
NAMES = tuple(LEVELS)
NONE: Array = np.array([level.none for level in LEVELS.values()])
FRICTION, MASS, DELAY, NOISE_FACTOR, PUSH, INTERVAL = range(len(NAMES))
FACTORS = [FRICTION, MASS]
"""Those that change the model of a simulation."""
MAX_DELAY = int(LEVELS["motor_delay"].most)

NOISE = (
    (layout.POSITION, 0.01),
    (slice(layout.VELOCITIES.start, layout.VELOCITIES.start + 3), 0.1),
    (slice(layout.VELOCITIES.start + 3, layout.VELOCITIES.stop), 0.2),
    (layout.ANGLES, 0.01),
    (slice(layout.HEIGHT, layout.HEIGHT + 1), 0.01),
)
"""Standard deviation, at a factor of 1, of each number of a limb: metres of its position (the
torso's is the origin), m/s, rad/s, radians of its angles, metres of its height. Of the size that
simulations of legged robots use."""
_NOISY = sum(part.stop - part.start for part, _ in NOISE)
_STRIDE = 1 << 20
"""Numbers of a stream that belong to one tick, however many a body of any size takes of them."""
_PUSH_NUMBERS = _STRIDE - 1
"""Where among them is that of a push."""
_KEY = np.uint64(0xD1B54A32D192ED03)


def parse_levels(given: Mapping[str, float] | None, num_envs: int = 1) -> Array | None:
    """Levels (num_envs, 6) from those of some disturbances by name; None where there are none."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ValueError(
            f"disturbances are levels by name, as {{'friction': 0.5}}, not {shown(given)}"
        )
    levels = NONE.copy()
    for name, value in given.items():
        if name not in LEVELS:
            raise ValueError(f"unknown disturbance {shown(name)}; there are {', '.join(NAMES)}")
        check_level(name, value)
        if np.ndim(value):
            raise ValueError(f"{name} is one number for all environments, not {shown(value)}")
        levels[NAMES.index(name)] = value
    return np.tile(levels, (num_envs, 1))


def read_levels(words: Sequence[str]) -> dict[str, float]:
    """Levels by name from words such as `friction=0.5`, checked."""
    levels = {}
    for word in words:
        name, _, level = word.partition("=")
        try:
            levels[name] = float(level)
        except ValueError:
            raise ValueError(
                f"a disturbance is NAME=LEVEL, as friction=0.5, not {word!r}; there are "
                f"{', '.join(NAMES)}"
            ) from None
    parse_levels(levels)
    return levels


def check_level(name: str, value: Any) -> None:
    """Refuse what is no level of a disturbance within its bounds, or an array of such."""
    level = LEVELS[name]
    array = numbers(name, value)
    whole = name != "motor_delay" or (array == np.round(array)).all()
    if not (whole and (array >= level.least).all() and (array <= level.most).all()):
        kind = "a whole number" if name == "motor_delay" else "a number"
        raise ValueError(
            f"{name} is {kind} from {level.least:g} to {level.most:g} ({level.meaning}), "
            f"not {shown(value)}"
        )


def fill_levels(given: Array | None, made: Array | None, rows: Rows) -> Array:
    """Levels (rows, 6) of new episodes: those `given` at the reset, where they are not NaN, else
    those that the environments were `made` with, both (num_envs, 6), else none."""
    levels = np.tile(NONE, (len(rows), 1)) if made is None else made[rows]
    return levels if given is None else np.where(np.isnan(given[rows]), levels, given[rows])


def disturb_model(model: mujoco.MjModel, original: mujoco.MjModel, levels: Array) -> None:
    """Give a model the friction and mass of these levels (6,), from those of the original."""
    model.geom_friction[:] = original.geom_friction
    model.geom_friction[:, 0] *= levels[FRICTION]
    model.body_mass[:] = original.body_mass * levels[MASS]
    model.body_inertia[:] = original.body_inertia * levels[MASS]
    mujoco.mj_setConst(model, mujoco.MjData(model))


def disturb_batch(batch: Batch, sims: Rows, factors: Array) -> None:
    """Give simulations of a batch the friction and mass of `factors` (sims, 2)."""
    original, friction, mass = batch.model, factors[:, :1], factors[:, 1:]
    batch.expand("geom_friction")[sims, :, 0] = original.geom_friction[:, 0] * friction
    batch.expand("body_mass")[sims] = original.body_mass * mass
    batch.expand("body_inertia")[sims] = original.body_inertia * mass[..., None]
    batch.set_const(sims)


class Disturbances:
    """The levels of the present episode of each environment, and what late motors wait for."""

    def __init__(self, num_envs: int, max_limbs: int, max_action_dim: int) -> None:
        self.levels: Array = np.tile(NONE, (num_envs, 1))
        """(num_envs, 6), in the order of `LEVELS`."""
        self._steps = np.zeros(num_envs, np.int64)
        """Steps of the present episode."""
        self._ticks = np.zeros(num_envs, np.int64)
        """Steps and starts since the environment was seeded: what is drawn depends on them alone,
        so that who observes twice observes the same."""
        self._past = np.zeros((num_envs, MAX_DELAY + 1, max_action_dim))
        """The last actions, the newest first."""
        self._streams = Streams(num_envs, longest=2 * _NOISY * max_limbs)

    def reset(self, rows: Rows, levels: Array, keys: NDArray[np.uint64], seeded: Flags) -> None:
        """Start episodes at `levels` (rows, 6).

        `keys` (rows,) are those of the main streams, `seeded` says which of them begin anew.
        """
        self.levels[rows] = levels
        self._steps[rows] = 0
        self._past[rows] = 0.0
        self._streams.restore(rows, keys ^ _KEY, np.zeros(len(rows), np.int64))
        self._ticks[rows] = np.where(seeded, 0, self._ticks[rows] + 1)

    def step(self, actions: Array, waited: Flags | None) -> Array:
        """What the motors do (num_envs, action_dim) in the step that is to come under `actions`."""
        stepped = slice(None) if waited is None else ~waited
        self._steps[stepped] += 1
        self._ticks[stepped] += 1
        delay = self.levels[:, DELAY].astype(np.intp)
        if not delay.any():
            return actions
        past = self._past[stepped]
        past[:, 1:] = past[:, :-1].copy()
        past[:, 0] = actions[stepped]
        self._past[stepped] = past
        late: Array = self._past[np.arange(len(delay)), delay]
        return late

    def pushed(self, dt: Array, waited: Flags | None) -> tuple[Rows, Array]:
        """Who is pushed in the step that was just counted, and their velocity (rows, 2) by it."""
        interval = np.maximum(1, np.round(self.levels[:, INTERVAL] / dt)).astype(np.int64)
        due = (self.levels[:, PUSH] > 0) & (self._steps % interval == 0)
        if waited is not None:
            due &= ~waited
        rows = np.flatnonzero(due)
        if not len(rows):
            return rows, np.zeros((0, 2))
        angle = 2 * np.pi * self._draw(rows, 1, _PUSH_NUMBERS)[:, 0]
        kick = self.levels[rows, PUSH][:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return rows, kick

    def add_noise(self, limbs: NDArray[np.float32], rows: Rows, angle_slope: Array) -> None:
        """Add noise to observations (rows, limbs, 41) of these environments, in place.

        `angle_slope`, (3, rows, limbs), takes angles to scaled ones.
        """
        noisy = np.flatnonzero(self.levels[rows, NOISE_FACTOR] > 0)
        if not len(noisy):
            return
        count = limbs.shape[1]
        draws = self._draw(rows[noisy], 2 * _NOISY * count, 0).reshape(-1, count, _NOISY, 2)
        normal = to_normal(draws[..., 0], draws[..., 1])
        normal *= self.levels[rows[noisy], NOISE_FACTOR][:, None, None]
        seen, first = limbs[noisy].astype(np.float64), 0
        for part, deviation in NOISE:
            noise = deviation * normal[..., first : first + part.stop - part.start]
            first += part.stop - part.start
            if part == layout.POSITION:
                noise[:, 0] = 0.0
            if part == layout.ANGLES:
                noise[:, 0] = 0.0
                slope = angle_slope[:, noisy].transpose(1, 2, 0)
                noise *= slope != 0  # no angle where there is no hinge
                seen[..., layout.SCALED_ANGLES] += noise * slope
            seen[..., part] += noise
        limbs[noisy] = seen

    def _draw(self, rows: Rows, size: int, first: int) -> Array:
        """Uniform numbers (rows, size) of this tick, from the `first` on."""
        self._streams.counters[rows] = self._ticks[rows] * _STRIDE + first
        return self._streams.uniform(rows, size)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything that the coming steps depend on, in arrays of the caller's own."""
        return {
            "levels": self.levels.copy(),
            "level_steps": self._steps.copy(),
            "level_ticks": self._ticks.copy(),
            "level_keys": self._streams.keys.copy(),
            "past_actions": self._past.copy(),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to what `state_dict` gave."""
        self.levels[:] = state["levels"]
        self._steps[:] = state["level_steps"]
        self._ticks[:] = state["level_ticks"]
        rows = np.arange(len(self.levels))
        self._streams.restore(rows, state["level_keys"], np.zeros(len(rows), np.int64))
        self._past[:] = state["past_actions"]


def concatenate_states(
    states: Sequence[Mapping[str, NDArray[Any]]], max_limbs: int, max_action_dim: int
) -> dict[str, NDArray[Any]]:
    """States of environments of one body each as the state of all, in their order."""
    none = Disturbances(1, max_limbs, max_action_dim).state_dict()
    disturbed = any("levels" in state for state in states)
    joined: dict[str, NDArray[Any]] = {}
    for key in {**states[0], **(none if disturbed else {})}:
        values = [state.get(key, none.get(key)) for state in states]
        if key == "past_actions":
            values = [
                np.pad(value, ((0, 0), (0, 0), (0, max_action_dim - value.shape[2])))
                for value in values
                if value is not None
            ]
        joined[key] = np.concatenate([value for value in values if value is not None])
    return joined
