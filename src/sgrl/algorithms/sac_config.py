"""Settings of SAC. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from sgrl.algorithms.config import MOST_STEPS, EqualRowsConfig, Plan
from sgrl.algorithms.replay_buffer import bytes_per_step
from sgrl.morphology import Morphology, mirror_of
from sgrl.morphology.families import family_of
from sgrl.setting import setting

T = TypeVar("T")
OTHER_HORIZON = 2.0
"""Seconds that a body without a family looks ahead."""
OTHER_RETURN_STEPS = 3
"""Rewards that a target of a body without a family adds up."""
DEFAULT_BUFFER = 1_000_000
"""Transitions of each body, if a training is not shorter and they fit in `DEFAULT_BUFFER_BYTES`."""
DEFAULT_BUFFER_BYTES = 16e9


@dataclass(frozen=True)
class SACConfig(EqualRowsConfig):
    """Settings of SAC."""

    batch_size: int = setting(256, key="batch_size", least=2, most=1_000_000)
    """Transitions in an update: as many of each body, at least two."""
    learning_starts: int = setting(10_000, key="learning_starts", least=0, most=MOST_STEPS)
    """Steps with random actions, before the first update."""
    utd_ratio: float = setting(0.125, key="utd_ratio", least=0.0, most=1_000.0)
    """Updates for each collected transition."""
    learning_rate: float = setting(3e-4, key="learning_rate", above=0.0, most=1.0)
    """Adam's, of actor, critics and entropy coefficients."""
    tau: float = setting(0.005, key="tau", least=0.0, most=1.0)
    """Part of the way that target critics go towards the critics at each update."""
    policy_delay: int = setting(2, key="policy_delay", least=1, most=1_000_000)
    """Updates of the critics for one of the actor and the entropy coefficients."""
    horizon: float | tuple[float, ...] | None = setting(None, key="horizon", above=0.0, most=1e6)
    """Seconds that the discount looks ahead, one number for all bodies or one for each; by default
    its family's own."""
    n_step: int | tuple[int, ...] | None = setting(None, key="n_step", least=1, most=64)
    """Rewards that a target adds up before it bootstraps, one number for all bodies or one for
    each; by default its family's own."""
    target_entropy: float = setting(-1.0, key="target_entropy", least=-100.0, most=1.0)
    """Entropy that the coefficient leads to, for each motor that moves something."""
    initial_alpha: float = setting(0.01, key="initial_alpha", above=0.0, most=1e6)
    """Entropy coefficient at the start; every body has its own, which is learned."""
    critic_warmup: int = setting(
        10_000, key="critic_warmup", before=10_000, least=0, most=MOST_STEPS
    )
    """Updates of the critics alone before the first of an actor that has the weights of another
    run, if the critics began anew: led by critics that know nothing it forgets what it can do."""
    longest_hold: int = setting(16, key="longest_hold", least=1, most=1_000_000)
    """Most steps for which an environment keeps its exploration noise: it is drawn anew after k
    steps, k from a Zeta(2) distribution."""
    critic: Literal["flat", "method"] = setting("flat", key="critic")
    """A flat network of the whole body in the target frame, or the method's own, as in the
    paper."""
    critic_width: int = setting(256, key="critic_width", least=1, most=1_000_000)
    """Units in each of the two hidden layers of a flat critic."""
    buffer_size: int | None = setting(None, key="buffer_size", least=1, most=MOST_STEPS)
    """Transitions that are remembered, of all bodies together: a million of each, or what fits in
    16 GB, or all if there are fewer."""

    def default_steps(self) -> int:
        return 2_000_000

    def default_eval_every(self, bodies: int) -> int:
        return 100_000

    def resolved(self, plan: Plan) -> SACConfig:
        families = [family_of(body) for body in plan.bodies]
        horizons = [OTHER_HORIZON if one is None else one.horizon for one in families]
        steps = [OTHER_RETURN_STEPS if one is None else one.return_steps for one in families]
        config = replace(
            self,
            horizon=_one_each("horizon", self.horizon, horizons),
            n_step=_one_each("n_step", self.n_step, steps),
        )
        # A network that is made for one body can't learn that body's image, if that is another;
        # one that is its own mirror image would learn nothing from images.
        body, symmetric = plan.bodies[0], plan.method.endswith("+mirror")
        if symmetric or (plan.one_body and mirror_of(body).body != body):
            config = replace(config, mirror=False)
        if self.buffer_size is None:
            bodies = len(plan.bodies)
            size = sum(map(bytes_per_step, plan.bodies)) / bodies
            most = plan.steps + plan.envs_per_body * bodies
            fits = int(DEFAULT_BUFFER_BYTES / size)
            config = replace(config, buffer_size=min(DEFAULT_BUFFER * bodies, fits, most))
        return config

    def gammas(self, bodies: Sequence[Morphology]) -> list[float]:
        """The discount of each body's rewards, gamma = exp(-dt / horizon), of a resolved config."""
        assert isinstance(self.horizon, tuple), "resolve the config first"
        return [body.discount(own) for body, own in zip(bodies, self.horizon, strict=True)]


def _each(value: T | tuple[T, ...] | None) -> tuple[T, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def _one_each(name: str, value: T | tuple[T, ...] | None, defaults: list[T]) -> tuple[T, ...]:
    """One value for each body."""
    given = _each(value)
    if len(given) == len(defaults):
        return given
    if len(given) > 1:
        raise ValueError(f"{name} has {len(given)} values for {len(defaults)} bodies")
    return given * len(defaults) or tuple(defaults)
