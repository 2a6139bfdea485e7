"""How much is spent on an experiment: `smoke`, `laptop` or `paper`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sgrl.algorithms.config import AlgorithmConfig
from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.algorithms.td3_config import TD3Config
from sgrl.envs.variant import MAX_EPISODE_STEPS
from sgrl.morphology.table import COLLECTIONS
from sgrl.nearest import did_you_mean
from sgrl.training.recipes import RECIPES
from sgrl.training.settings import TrainSettings


@dataclass(frozen=True)
class Length:
    """How long a training is: so many steps, or fewer if the minutes are over before."""

    steps: int
    minutes: float | None = None


UNTIL_TIME_IS_UP = 10**9
"""Steps that no training here makes in its minutes."""


@dataclass(frozen=True)
class Budget:
    """What trainings and trials may cost."""

    name: str
    about: str
    """Stated in every table."""
    algorithm: str
    """Unless another is asked for."""
    seeds: int
    """Trainings of each method."""
    episodes: int
    """Episodes of each trial: a trained run on one body."""
    episode_steps: int
    """Longest episode of a trial."""
    body: Length
    """Training on one body."""
    collection: Length
    """Training on a collection."""
    fine_tuning: Length
    """Second stage on a collection."""
    common: TrainSettings
    """What else a training is told."""
    configs: Mapping[str, AlgorithmConfig] = field(default_factory=dict)
    """What an algorithm, by its name, is told instead of its defaults."""

    def settings(self, method: str, task: str, seed: int, algorithm: str) -> TrainSettings:
        """Settings of one training on a body or collection."""
        length = self.collection if task in COLLECTIONS else self.body
        return replace(
            self.common,
            bodies=(task,),
            method=method,
            seed=seed,
            algorithm=algorithm,
            config=self.configs.get(algorithm),
            steps=length.steps,
            minutes=length.minutes,
        )


SMOKE = Budget(
    name="smoke",
    about="a few thousand steps at most, which teach nothing and show that everything runs",
    algorithm="ppo",
    seeds=2,
    episodes=2,
    episode_steps=40,
    body=Length(512),
    collection=Length(3_072),
    fine_tuning=Length(3_072),
    common=TrainSettings(envs_per_body=8, threads=1, log_every=64, checkpoint_every=256),
    configs={
        "td3": TD3Config(batch_size=8, learning_starts=100, utd_ratio=0.02),
        "ppo": PPOConfig(n_steps=16, n_epochs=1),
    },
)

LAPTOP = Budget(
    name="laptop",
    about=(
        "networks of preset `fast`; each training has 18 minutes on one core for one body, 15 for "
        "a collection, 8 for fine-tuning"
    ),
    algorithm="ppo",
    seeds=2,
    episodes=100,
    episode_steps=MAX_EPISODE_STEPS,
    body=Length(UNTIL_TIME_IS_UP, minutes=18),
    collection=Length(UNTIL_TIME_IS_UP, minutes=15),
    fine_tuning=Length(UNTIL_TIME_IS_UP, minutes=8),
    common=TrainSettings(threads=1, checkpoint_every=100_000),
    # Room for all that TD3 collects in that time, not for all the steps.
    configs={"td3": TD3Config(buffer_size=1_000_000)},
)

PAPER_RECIPE = RECIPES["paper"]
PAPER = Budget(
    name="paper",
    about=(
        "networks of preset `paper`; 1 million steps for start orientation as in the "
        "paper, which does not state the others: 5 million for one body, 10 million for a "
        "collection, 5 million for fine-tuning"
    ),
    algorithm=PAPER_RECIPE.settings.algorithm,
    seeds=3,
    episodes=100,
    episode_steps=MAX_EPISODE_STEPS,
    body=Length(PAPER_RECIPE.body_steps),
    collection=Length(PAPER_RECIPE.collection_steps),
    fine_tuning=Length(5_000_000),
    common=PAPER_RECIPE.settings,
)

BUDGETS = {budget.name: budget for budget in (SMOKE, LAPTOP, PAPER)}


def get_budget(name: str) -> Budget:
    """A budget by its name; ValueError with the nearest name if there is none."""
    if name not in BUDGETS:
        raise ValueError(f"unknown budget {name!r}; {did_you_mean(name, BUDGETS)}")
    return BUDGETS[name]
