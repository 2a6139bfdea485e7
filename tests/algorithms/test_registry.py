"""The table of algorithms, their configs, and algorithms from outside the package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pytest
import torch

from sgrl.algorithms import registry
from sgrl.algorithms.check import check_algorithm
from sgrl.algorithms.config import AlgorithmConfig
from sgrl.algorithms.learner import Learner, Step
from sgrl.algorithms.registry import ALGORITHMS, algorithm_named
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.morphology import resolve_bodies
from sgrl.plugins import TRUST
from sgrl.setting import settings_of
from tests.envs.test_fewer_hinges import WALKER as FEWER_HINGES

from .external import REINFORCE
from .made import NoClock, make_learner

EXTERNAL = "tests.algorithms.external:REINFORCE"


@pytest.fixture(autouse=True)
def _nothing_trusted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(TRUST, "_modules", {})
    monkeypatch.delenv("SGRL_TRUST", raising=False)
    registry._outside.cache_clear()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    registry._outside.cache_clear()


def test_names_and_configs_need_no_torch() -> None:
    program = (
        "import sys\n"
        "from sgrl.algorithms.registry import ALGORITHMS\n"
        "for row in ALGORITHMS.values(): row.config_class()()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_row_is_complete(name: str) -> None:
    row = algorithm_named(name)
    learner, config = row.learner_class(), row.config_class()
    assert issubclass(learner, Learner)
    assert (learner.name, learner.Config) == (row.options, config)
    if name != "distil":  # which has nothing to do without teachers
        assert check_algorithm(learner, name) is learner


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_number_of_a_config_is_bounded(name: str) -> None:
    config = algorithm_named(name).config_class()
    known = settings_of(config)
    keys = [one.key for one in known.values()]
    assert len(set(keys)) == len(keys)
    for field in fields(config):
        kind = str(field.type)
        if "Literal" not in kind and ("int" in kind or "float" in kind):
            bounds = known[field.name]
            assert bounds.most is not None, field.name
            assert bounds.least is not None or bounds.above is not None, field.name
    assert {*config.old_names.values(), *config.moved_here.values()} <= known.keys()
    assert not config.old_names.keys() & known.keys()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("tdd3", "did you mean td3"),
        ("PPO", "known are sac, td3, ppo"),
        ("dreamer", "one of your own is named module:Class"),
    ],
)
def test_what_is_not_known(name: str, answer: str) -> None:
    with pytest.raises(ValueError, match=answer) as error:
        algorithm_named(name)
    assert "\n" not in str(error.value)


def test_an_algorithm_from_outside_is_imported_where_it_is_trusted() -> None:
    with pytest.raises(ValueError, match=r"add --trust tests\.algorithms\.external"):
        algorithm_named(EXTERNAL)
    TRUST.add(["tests"])
    row = algorithm_named(EXTERNAL)
    assert (row.name, row.options) == (EXTERNAL, "reinforce")
    assert row.config_class()().std == 0.3
    assert row.learner_class().name == "reinforce"


def test_it_goes_on_from_its_state_to_the_bit() -> None:
    TRUST.add(["tests"])
    bodies = resolve_bodies(("3d_hopper_3_shin", "3d_walker_2_right_leg_left_knee"))
    one, other = (make_learner(EXTERNAL, bodies, envs=2, seed=i) for i in range(2))
    rng = np.random.default_rng(0)
    reports: dict[str, list[float]] = {"one": [], "other": []}

    def live(name: str, learner: Learner, rows: list[np.ndarray]) -> None:
        for obs in rows:
            actions, extras = learner.act(obs)
            nothing = np.zeros(4, bool)
            learner.store(
                Step(obs, actions, obs[:, 0].astype(float), obs, obs, nothing, nothing, extras)
            )
            learner.update(lambda report: reports[name].append(report["loss"]), NoClock(), bool)

    rows = list(rng.standard_normal((70, 4, one.layout.width)).astype(np.float32))
    live("one", one, rows[:40])
    before = len(reports["one"])
    weights, state = one.weights(), one.state_dict()
    live("one", one, rows[40:])
    other.load_state_dict(weights, state)
    live("other", other, rows[40:])
    assert reports["one"][before:] == reports["other"]
    assert len(reports["other"]) == 1
    for name, value in one.weights().items():
        assert torch.equal(value, other.weights()[name])


@dataclass(frozen=True)
class Sized(AlgorithmConfig):
    size: int = -1

    def __post_init__(self) -> None:
        raise ValueError("a size must be positive")


@dataclass
class Loose:
    size: int = 1


class NoStore(Learner):
    name, Config, metrics = "mine", AlgorithmConfig, ()


class NoNoise(REINFORCE):
    def state_dict(self):
        return super().state_dict() | {"noise": np.random.default_rng().bit_generator.state}


class Pickled(REINFORCE):
    def state_dict(self):
        return super().state_dict() | {"rng": [np.random.default_rng(0)]}


class Unnamed(REINFORCE):
    def weights(self):
        return {name.replace("actor.", "pi."): value for name, value in super().weights().items()}


class Wide(REINFORCE):
    def act(self, obs):
        return super().act(obs)[0].astype(np.float64), {}


class Broken(REINFORCE):
    def store(self, step):
        raise RuntimeError("no room")


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        (3, "is not a subclass of sgrl.algorithms.learner.Learner"),
        (torch.nn.Linear, "is not a subclass of sgrl.algorithms.learner.Learner"),
        (NoStore, "does not say how to __init__, act, describe, load_state_dict, load_weights, st"),
        (type("Odd", (REINFORCE,), {"name": "my own"}), "its name is what its options begin with"),
        (type("Odd", (REINFORCE,), {"Config": Loose}), "not a subclass of sgrl.algorithms.config"),
        (type("Odd", (REINFORCE,), {"metrics": ["loss"]}), "metrics are not a tuple of names"),
        (type("Odd", (REINFORCE,), {"can_checkpoint": False}), "can't be saved at the start"),
        (type("Odd", (REINFORCE,), {"Config": Sized}), "ValueError: a size must be positive"),
        (NoNoise, "acts otherwise after load_state_dict"),
        (Pickled, "state_dict.. has a Generator in 'rng'"),
        (Unnamed, "no names that begin with 'actor.'"),
        (
            Wide,
            r"act gives float64 \(4, 6\), not float32 \(num_envs, action_dim\), which is \(4, 6\)",
        ),
        (Broken, "RuntimeError: no room .*test_registry.py"),
    ],
)
def test_what_is_wrong_is_said_before_it_is_used(what: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as error:
        check_algorithm(what, "mine:Own")
    assert str(error.value).startswith("mine:Own ")
    assert "docs/howto/own_algorithm.md" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("sac", {"compile": "no", "learning_starts": 8, "batch_size": 8}),
        ("td3", {"learning_starts": 8, "batch_size": 8, "utd_ratio": 0.5}),
        ("ppo", {"compile": "no", "n_steps": 8, "batch_size": 8, "mirror_loss_coef": 0.3}),
    ],
)
def test_bodies_whose_limbs_have_fewer_hinges_are_learned(
    name: str, config: dict[str, object]
) -> None:
    bodies = (FEWER_HINGES, *resolve_bodies(("3d_hopper_3_shin",)))
    learner = make_learner(name, bodies, envs=2, **config)
    env = LocomotionVectorEnv(bodies, 2, threads=1)
    obs, _ = env.reset(seed=0)
    reports: list[dict[str, float]] = []
    for _ in range(24):
        actions, extras = learner.act(obs)
        assert actions.shape == env.action_mask.shape
        assert not actions[~env.action_mask].any()
        after, rewards, terminated, truncated, infos = env.step(actions)
        done = terminated | truncated
        final = np.where(done[:, None], infos["final_obs"], after) if done.any() else after
        learner.store(Step(obs, actions, rewards, after, final, terminated, done, extras))
        learner.update(reports.append, NoClock(), lambda: False)
        obs = after
    assert learner.updates
