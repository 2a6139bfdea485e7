"""Settings of distillation. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from sgrl.algorithms.config import MOST_STEPS, EqualRowsConfig, Plan
from sgrl.setting import setting


@dataclass(frozen=True)
class DistilConfig(EqualRowsConfig):
    """Settings of distillation by DAgger (Ross et al. 2011)."""

    least_envs_per_body: ClassVar[int] = 8

    teachers: tuple[str, ...] = setting((), key="teachers")
    """Runs or shipped policies to learn from, of any method and algorithm. The first of them that
    was trained on a body teaches it; their policies are copied into the run."""
    batch_size: int = setting(512, key="batch_size", least=2, most=1_000_000)
    """Observations in an update: at first as many of each body, then more of those that lag."""
    utd_ratio: float = setting(0.0625, key="utd_ratio", least=0.0, most=1_000.0)
    """Updates for each collected transition."""
    learning_starts: int = setting(5_000, key="learning_starts", least=0, most=MOST_STEPS)
    """Steps before the first update."""
    learning_rate: float = setting(1e-3, key="learning_rate", above=0.0, most=1.0)
    """Adam's at the start."""
    final_learning_rate: float = setting(5e-5, key="final_learning_rate", above=0.0, most=1.0)
    """Adam's at the end; it falls in a straight line."""
    max_grad_norm: float = setting(1.0, key="max_grad_norm", above=0.0, most=1e9)
    """Largest norm of a gradient."""
    alone_after: float = setting(0.25, key="alone_after", least=0.0, most=1.0)
    """Part of the training after which the student acts alone; until then its share grows."""
    handover_steps: int = setting(20, key="handover_steps", least=1, most=1_000_000)
    """Steps for which teacher or student acts before it is drawn again who does."""
    noise: float = setting(0.1, key="noise", least=0.0, most=10.0)
    """Standard deviation of normal noise on the actions of half of the environments."""
    std_loss_coef: float = setting(0.1, key="std_loss_coef", least=0.0, most=1e6)
    """Weight of the loss of the log of the standard deviations, if a teacher has them."""
    label_limit: float = setting(2.5, key="label_limit", above=0.0, most=100.0)
    """Largest size of a teacher's mean before tanh."""
    rebalances: int = setting(4, key="rebalances", least=0, most=6)
    """How often in a training the rows of the bodies are shared out anew, by their losses."""
    buffer_size: int = setting(400_000, key="buffer_size", least=1, most=MOST_STEPS)
    """Observations that are remembered, of all bodies together."""

    @property
    def sources(self) -> tuple[str, ...]:
        return self.teachers

    def with_sources(self, names: Sequence[str]) -> DistilConfig:
        return replace(self, teachers=tuple(names))

    def default_steps(self) -> int:
        return 2_000_000

    def default_eval_every(self, bodies: int) -> int:
        return 200_000

    def resolved(self, plan: Plan) -> DistilConfig:
        if not self.teachers:
            raise ValueError(
                "a distillation needs teachers: sgrl distil RUN RUN ..., or --distil.teachers"
            )
        return self
