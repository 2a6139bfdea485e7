"""Settings of SAC. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sgrl.algorithms.config import MOST_STEPS, AlgorithmConfig, Plan
from sgrl.algorithms.replay_buffer import bytes_per_step
from sgrl.morphology import Morphology, mirror_of
from sgrl.morphology.families import family_of
from sgrl.setting import setting

OTHER_HORIZON = 2.0
"""Seconds that a body without a family looks ahead."""
OTHER_RETURN_STEPS = 3
"""Rewards that a target of a body without a family adds up."""
MOST_RETURN_STEPS = 64
DEFAULT_BUFFER = 1_000_000
"""Transitions of each body, if a training is not shorter and they fit in `DEFAULT_BUFFER_BYTES`."""
DEFAULT_BUFFER_BYTES = 16e9
DEFAULT_ENVS = 32
"""Environments of a body, if there are few bodies."""
MOST_DEFAULT_ENVS = 128
"""Environments of all bodies together, but no fewer than `LEAST_ENVS_PER_BODY` of each."""
LEAST_ENVS_PER_BODY = 4


@dataclass(frozen=True)
class SACConfig(AlgorithmConfig):
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
    horizon: float | None = setting(None, key="horizon", above=0.0, most=1e6)
    """Seconds that the discount looks ahead; by default each family's own."""
    n_step: int | None = setting(None, key="n_step", least=1, most=MOST_RETURN_STEPS)
    """Rewards that a target adds up before it bootstraps; by default each family's own."""
    target_entropy: float = setting(-1.0, key="target_entropy", least=-100.0, most=1.0)
    """Entropy that the coefficient leads to, for each motor that moves something."""
    initial_alpha: float = setting(0.01, key="initial_alpha", above=0.0, most=1e6)
    """Entropy coefficient at the start; every body has its own, which is learned."""
    longest_hold: int = setting(16, key="longest_hold", least=1, most=1_000_000)
    """Most steps for which an environment keeps its exploration noise: it is drawn anew after k
    steps, k from a Zeta(2) distribution."""
    critic: Literal["flat", "method"] = setting("flat", key="critic")
    """A flat network of the whole body in the target frame, or the method's own, as in the
    paper."""
    critic_width: int = setting(256, key="critic_width", least=1, most=1_000_000)
    """Units in each of the two hidden layers of a flat critic."""
    mirror: bool = setting(True, key="mirror")
    """Whether half of the sampled transitions are mirror images. The image of a lopsided body is
    another body: it is learned without being simulated."""
    buffer_size: int | None = setting(None, key="buffer_size", least=1, most=MOST_STEPS)
    """Transitions that are remembered, of all bodies together: a million of each, or what fits in
    16 GB, or all if there are fewer."""
    compile: Literal["auto", "yes", "no"] = setting("auto", key="compile", identifies=False)
    """Whether updates are compiled: if there is a compiler and enough of them, or told by you."""
    products: Literal["auto", "bfloat16", "onednn", "float32"] = setting(
        "auto", key="products", identifies=False
    )
    """How networks multiply: whatever is fastest on this machine, or told by you."""

    def default_steps(self) -> int:
        return 2_000_000

    def default_envs_per_body(self, bodies: int) -> int:
        return min(DEFAULT_ENVS, max(LEAST_ENVS_PER_BODY, MOST_DEFAULT_ENVS // bodies))

    def default_eval_every(self, bodies: int) -> int:
        return 100_000

    def resolved(self, plan: Plan) -> SACConfig:
        lopsided = self.mirror and mirror_of(plan.bodies[0]).body != plan.bodies[0]
        # A network that is made for one body can't learn that body's image, which is another.
        config = replace(self, mirror=False) if plan.one_body and lopsided else self
        if self.buffer_size is None:
            bodies = len(plan.bodies)
            size = sum(map(bytes_per_step, plan.bodies)) / bodies
            most = plan.steps + plan.envs_per_body * bodies
            fits = int(DEFAULT_BUFFER_BYTES / size)
            config = replace(config, buffer_size=min(DEFAULT_BUFFER * bodies, fits, most))
        return config

    def gamma(self, body: Morphology) -> float:
        """The discount of a body's rewards: exp(-dt / horizon)."""
        return body.discount(self._of_family(body)[0])

    def return_steps(self, body: Morphology) -> int:
        """Rewards that a target of a body adds up."""
        return self._of_family(body)[1]

    def _of_family(self, body: Morphology) -> tuple[float, int]:
        family = family_of(body)
        horizon = OTHER_HORIZON if family is None else family.horizon
        steps = OTHER_RETURN_STEPS if family is None else family.return_steps
        return self.horizon or horizon, self.n_step or steps
