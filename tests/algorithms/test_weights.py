"""Weights by name: old names, and starting one algorithm from a policy of another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sgrl.algorithms.weights import current_names, load_portable, weights_of
from sgrl.models.methods import make_actor, make_gaussian_actor
from sgrl.models.set import SETConfig
from sgrl.morphology import resolve_bodies

from .made import make_learner
from .test_ppo import collect, learn

BODIES = resolve_bodies(("3d_walker_2_right_leg_left_knee", "3d_hopper_5_full"))
TINY = SETConfig(layers=1, embedding=8, hidden=8, matrix_hidden=8)
POLICY = ("actor.", "std.", "normalizer.")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def make(algorithm, **config):
    if algorithm == "ppo":
        config = {"n_steps": 8} | config
    return make_learner(algorithm, BODIES, network=TINY, envs=2, **config)


def policy_of(learner):
    return {name: value for name, value in learner.weights().items() if name.startswith(POLICY)}


def observations(learner):
    rng = np.random.default_rng(5)
    shape = (learner.layout.num_envs, learner.layout.width)
    return 3.0 * rng.standard_normal(shape).astype(np.float32)


def test_names_of_earlier_runs():
    weights = {
        "actor.network.spread.weight": torch.zeros(1),
        "spread.log_std": torch.zeros(2),
        "normaliser.count": torch.zeros(3),
        "returns.hopper/3d_hopper_5_full": torch.zeros(4),
    }
    named = current_names(weights)
    assert [len(value) for value in named.values()] == [1, 2, 3, 4]
    assert list(named) == [
        "actor.network.spread.weight",
        "std.log_std",
        "normalizer.count",
        "return_normalizer.hopper/3d_hopper_5_full",
    ]
    assert current_names(named) == named


def test_runs_under_earlier_names_go_on():
    ppo, other = make("ppo"), make("ppo")
    learn(ppo)
    old = {"std.": "spread.", "normalizer.": "normaliser.", "return_normalizer.": "returns."}
    earlier = {}
    for name, value in ppo.weights().items():
        prefix = next((new for new in old if name.startswith(new)), "")
        earlier[old.get(prefix, "") + name.removeprefix(prefix)] = value
    assert earlier.keys() != ppo.weights().keys()
    assert other.load_weights(earlier) == ""
    for name, value in ppo.weights().items():
        assert torch.equal(value, other.weights()[name]), name


def test_td3_starts_from_a_policy_of_ppo_with_its_statistics():
    ppo, td3 = make("ppo"), make("td3")
    learn(ppo)
    assert td3.load_weights(policy_of(ppo)) == "critic"
    obs = observations(td3)
    _, extras = ppo.act(obs)
    np.testing.assert_allclose(
        td3.policy_actions(obs, td3.layout.body_index), extras["means"], atol=1e-6
    )
    # They belong to its checkpoints.
    other = make("td3")
    other.load_state_dict(td3.weights(), td3.state_dict())
    again = other.policy_actions(obs, td3.layout.body_index)
    np.testing.assert_array_equal(again, td3.policy_actions(obs, td3.layout.body_index))


def test_ppo_starts_from_a_policy_of_td3_which_sees_what_is_there():
    td3, ppo = make("td3"), make("ppo")
    assert ppo.load_weights(policy_of(td3)) == "std, value"
    obs = observations(td3)
    _, extras = ppo.act(obs)
    plain = td3.policy_actions(obs, td3.layout.body_index)
    np.testing.assert_allclose(extras["means"], plain, atol=1e-6)
    learn(ppo)
    assert ppo.normalizer.count == 0, "statistics would change what the policy sees"
    other = make("ppo")
    other.load_state_dict(ppo.weights(), ppo.state_dict())
    assert not other.normalizes


def test_the_head_of_a_state_dependent_std_comes_and_goes():
    how = {"bodies": BODIES, "config": TINY}
    gaussian, other = (make_gaussian_actor("set", "fast", **how) for _ in range(2))
    actor = make_actor("set", "fast", **how)
    assert load_portable({"actor": actor}, weights_of({"actor": gaussian})) == []
    assert load_portable({"actor": other}, weights_of({"actor": actor})) == ["std"]
    assert load_portable({"actor": other}, weights_of({"actor": gaussian})) == []
    for name, value in gaussian.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
        assert "read_std" in name or torch.equal(value, actor.state_dict()[name]), name


def test_a_policy_of_another_size_or_with_statistics_is_refused_by_who_has_none():
    ppo, td3 = make("ppo"), make("td3")
    collect(ppo)
    before = td3.weights()
    strange = make_learner("ppo", BODIES, network=SETConfig(layers=2))
    with pytest.raises(ValueError, match="another method or size"):
        td3.load_weights(policy_of(strange))
    with pytest.raises(ValueError, match="observations normalized by statistics"):
        load_portable({"actor": td3.actor}, policy_of(ppo))
    assert all(torch.equal(value, before[name]) for name, value in td3.weights().items())
