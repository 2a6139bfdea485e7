"""PPO against numbers worked out by hand, on a toy problem, and its state."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sgrl.algorithms.ppo import Batch, Ppo
from sgrl.algorithms.ppo_config import HORIZONS, PpoConfig
from sgrl.algorithms.returns import ReturnScale
from sgrl.algorithms.rollout import Rollout, Step
from sgrl.envs.observation import ANGLES, FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.monolithic import MonolithicConfig
from sgrl.models.set import SetConfig
from sgrl.models.swat import SwatConfig
from sgrl.morphology import get_body, resolve_bodies

from .test_td3 import Adam
from .test_toy import BODY, NETWORKS, states

SMALL, LARGE = BODIES = resolve_bodies(("3d_walker_2_right_leg_left_knee", "3d_hopper_5_full"))
TINY = SetConfig(layers=1, embedding=8, hidden=8, matrix_hidden=8)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def random_rollout(ppo, copies, steps=8, seed=0):
    """(rollout, body_index): random rewards and observations under the policy's own actions."""
    rng = np.random.default_rng(seed)
    body_index = np.repeat(np.arange(len(ppo.bodies)), copies)
    width = max(body.num_limbs for body in ppo.bodies) * FEATURES
    motors = max(body.action_dim for body in ppo.bodies)
    rollout = Rollout(steps, len(body_index), width, motors)
    seen = rng.standard_normal((steps + 1, len(body_index), width)).astype(np.float32)
    for t in range(steps):
        actions, means = ppo.act(seen[t], body_index, rng)
        done = rng.uniform(size=len(body_index)) < 0.3
        step = Step(
            seen[t],
            actions,
            rng.standard_normal(len(body_index)),
            seen[t + 1],
            seen[t + 1] + 1,
            done & (rng.uniform(size=done.shape) < 0.5),
            done,
        )
        rollout.add(replace(step, means=means))
    return rollout, body_index


def log_density(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


def test_updates_of_linear_networks_by_hand():
    """Three steps in NumPy: the mean is tanh(A x), the value c · x, gradients by hand."""
    config = PpoConfig(
        learning_rate=3e-3, value_learning_rate=2e-2, gradient_clip=0.3, kl=1e9, restraint=0.4
    )
    ppo = Ppo("monolithic", "fast", (SMALL,), config, network=MonolithicConfig(hidden=()))
    ppo.policy.double(), ppo.value.double()
    rng = np.random.default_rng(0)
    rows, motors = 6, SMALL.action_dim
    layers = (ppo.policy.actor.network.layers[0], ppo.value.network.layers[0])
    start = [
        np.column_stack([part.detach().numpy() for part in (layer.weight, layer.bias)])
        for layer in layers
    ]
    actor, critic = Adam(start[0], 3e-3), Adam(start[1], 2e-2)
    spread = Adam(ppo.policy.log_std.detach().numpy().copy(), 3e-3)
    observed = torch.from_numpy(rng.standard_normal((rows, SMALL.num_limbs * FEATURES)))
    batch = LimbBatch.from_flat(observed, SMALL)
    x = np.hstack([batch.flat.reshape(rows, -1).numpy(), np.ones((rows, 1))])
    old_means, old_log_std = np.tanh(x @ start[0].T), spread.value.copy()
    actions = old_means + np.exp(old_log_std) * rng.standard_normal((rows, motors))
    gains, returns = rng.standard_normal((2, rows))
    # The last motor moves nothing, so that its action says nothing.
    moving = np.ones((rows, motors))
    moving[:, -1] = 0.0
    numbers = (actions, old_means, old_log_std, gains, returns, moving)
    given = Batch(batch, *map(torch.from_numpy, numbers))
    rate = 3e-3
    for _ in range(3):
        report = ppo.update(given)

        unbounded = x @ actor.value.T
        means, std = np.tanh(unbounded), np.exp(spread.value)
        log_ratio = log_density(actions, means, std) - log_density(
            actions, old_means, np.exp(old_log_std)
        )
        ratio = np.exp((moving * log_ratio).sum(axis=1))
        free, bounded = ratio * gains, np.clip(ratio, 0.8, 1.2) * gains
        excess = (moving * unbounded**2).sum(axis=1) / moving.sum(axis=1)
        loss = (0.4 * excess - np.minimum(free, bounded)).mean()
        assert report["policy_loss"] == pytest.approx(loss)
        assert report["clipped"] == pytest.approx((np.abs(ratio - 1) > 0.2).mean())
        kl = (
            (np.exp(2 * old_log_std) + (old_means - means) ** 2) / (2 * std**2)
            - 0.5
            + (spread.value - old_log_std)
        )
        assert report["kl"] == pytest.approx((moving * kl).sum(axis=1).mean())
        # Where the bound holds it is constant. The slope of a ratio is the ratio's times that
        # of its logarithm.
        outer = np.where(free <= bounded, -free, 0.0) / rows
        away = (actions - means) / std**2
        to_unbounded = outer[:, None] * moving * away * (1 - means**2)
        to_mean = (to_unbounded + 0.8 * moving * unbounded / moving.sum()).T @ x
        to_spread = outer @ (moving * (away * (actions - means) - 1))
        size = np.sqrt((to_mean**2).sum() + (to_spread**2).sum())
        assert report["policy_grad"] == pytest.approx(size)
        error = x @ critic.value[0] - returns
        assert report["value_loss"] == pytest.approx(0.5 * (error**2).mean())
        to_value = error[None] @ x / rows
        value_size = np.sqrt((to_value**2).sum())
        assert report["value_grad"] == pytest.approx(value_size)
        # The divergence is far below what is asked for, so the rate grows at every step.
        rate *= 1.1
        assert report["learning_rate"] == pytest.approx(rate)
        actor.rate = spread.rate = rate
        scale = min(1.0, 0.3 / (size + 1e-6))
        actor.step(scale * to_mean)
        spread.step(scale * to_spread)
        critic.step(min(1.0, 0.3 / (value_size + 1e-6)) * to_value)
        for layer, ours in zip(layers, (actor, critic), strict=True):
            theirs = np.column_stack([p.detach().numpy() for p in (layer.weight, layer.bias)])
            assert np.allclose(theirs, ours.value, atol=1e-9)
        assert np.allclose(ppo.policy.log_std.detach().numpy(), spread.value, atol=1e-9)


def test_bandit():
    """Episodes of one step with large rewards: each hinge should act as the half of its angle."""
    config = PpoConfig(rollout=1, epochs=4, batch=128, learning_rate=1e-3)
    ppo = Ppo("set", "fast", (BODY,), config, network=NETWORKS["set"])
    rng, copies = np.random.default_rng(0), 256
    body_index = np.zeros(copies, np.int64)
    fresh = states(rng, 500)

    def distance(observed, actions):
        wanted = 0.5 * observed[:, 1:, ANGLES].reshape(len(observed), -1)
        return ((actions - wanted) ** 2).mean(axis=-1)

    def error():
        flat = fresh.reshape(len(fresh), -1)
        return distance(fresh, ppo.act(flat, np.zeros(len(fresh), np.int64), rng)[1]).mean()

    at_start = error()
    rollout = Rollout(1, copies, fresh[0].size, BODY.action_dim)
    for _ in range(60):
        observed = states(rng, copies)
        flat = observed.reshape(copies, -1)
        actions, means = ppo.act(flat, body_index, rng)
        rewards = 1000.0 * (3.0 - distance(observed, actions))
        ended = np.ones(copies, bool)
        rollout.add(Step(flat, actions, rewards, flat, flat, ended, ended, means))
        for batch in ppo.batches(rollout, body_index, rng):
            ppo.update(batch)
        rollout.clear()
    assert error() < 0.02, (at_start, error())


def test_time_limits_bootstrap_from_the_last_observation_and_falls_do_not():
    ppo = Ppo("set", "fast", (LARGE,), PpoConfig(trace=0.0), network=TINY)
    rollout, body_index = random_rollout(ppo, copies=6)
    seen = ppo.seen(rollout, body_index)
    advantages, returns = ppo.advantages(rollout, body_index, seen)

    def value(flat):
        batch = LimbBatch.from_flat(torch.from_numpy(flat), LARGE)
        return batch.layout.row_mean(ppo.value(batch)).detach().numpy()

    kinds = set()
    for t in range(8):
        cut = rollout.done[t] & ~rollout.terminated[t]
        # `random_rollout` makes the last observation of an episode 1 larger than the next first.
        following = value(rollout.observations[t + 1] + cut[:, None].astype(np.float32))
        following = np.where(rollout.terminated[t], 0.0, following)
        expected = rollout.rewards[t] + ppo.discounts[0] * following
        assert np.allclose(returns[t], expected, atol=1e-5)
        assert np.allclose(advantages[t], expected - value(rollout.observations[t]), atol=1e-5)
        kinds |= set(zip(rollout.done[t], rollout.terminated[t], strict=True))
    assert len(kinds) == 3


def test_steps_without_a_fall_are_worth_more_to_learning():
    plain, careful = (
        Ppo("set", "fast", (LARGE,), PpoConfig(alive=alive), network=TINY) for alive in (0.0, 5.0)
    )
    careful.load(plain.weights())
    rollout, body_index = random_rollout(plain, copies=6)
    lived = rollout.rewards.copy()
    _, more = careful.advantages(rollout, body_index, careful.seen(rollout, body_index))
    assert np.array_equal(rollout.rewards, lived)
    assert rollout.terminated.any()
    assert (rollout.done & ~rollout.terminated).any()
    rollout.rewards[~rollout.terminated] += 5.0
    _, expected = plain.advantages(rollout, body_index, plain.seen(rollout, body_index))
    np.testing.assert_allclose(more, expected)


def test_bodies_share_every_batch_and_every_row_comes_once_an_epoch():
    config = PpoConfig(epochs=2, batch=12)
    ppo = Ppo("swat", "fast", BODIES, config, network=SwatConfig(layers=1, embedding=8))
    rollout, body_index = random_rollout(ppo, copies=3)
    batches = list(ppo.batches(rollout, body_index, np.random.default_rng(0)))
    assert len(batches) == 2 * 4
    for batch in batches:
        assert np.bincount(batch.rows.layout.row_body.numpy()).tolist() == [6, 6]
    assert len({id(batch.rows.layout) for batch in batches}) == 1
    for epoch in (batches[:4], batches[4:]):
        actions = torch.cat([batch.actions for batch in epoch]).numpy()
        lived = rollout.actions.reshape(-1, rollout.actions.shape[-1])
        assert sorted(map(tuple, actions)) == sorted(map(tuple, lived))
    assert not torch.equal(batches[0].actions, batches[4].actions)
    # Whatever a body's rewards are, its advantages count the same.
    own = torch.cat([batch.advantages[:6] for batch in batches[:4]])
    assert abs(own.mean()) < 1e-6
    assert own.std(correction=0) == pytest.approx(1.0, abs=1e-5)


def test_padding_does_not_count():
    """A body's rows give the same probabilities and divergence in a mix as alone."""
    config = PpoConfig(epochs=1, batch=1000)
    ppo = Ppo("set", "fast", BODIES, config, network=TINY)
    rollout, body_index = random_rollout(ppo, copies=2)
    (batch,) = ppo.batches(rollout, body_index, np.random.default_rng(0))
    with torch.no_grad():
        for parameter in ppo.policy.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    small = len(batch.actions) // 2
    observed = rollout.observations[:-1].reshape(2 * small, -1)
    lived = rollout.actions.reshape(2 * small, -1)
    order = [int(np.flatnonzero((lived == a).all(axis=1))[0]) for a in batch.actions.numpy()]
    alone = LimbBatch.from_flat(
        torch.from_numpy(observed[order[:small], : SMALL.num_limbs * FEATURES].copy()), SMALL
    )
    motors = SMALL.action_dim
    part = Batch(
        alone,
        batch.actions[:small, :motors],
        batch.means[:small, :motors],
        batch.log_std,
        batch.advantages[:small],
        batch.returns[:small],
        batch.moving[:small, :motors],
    )
    large = Batch(
        LimbBatch.from_flat(torch.from_numpy(observed[order[small:]]), LARGE),
        batch.actions[small:],
        batch.means[small:],
        batch.log_std,
        batch.advantages[small:],
        batch.returns[small:],
        batch.moving[small:],
    )
    assert np.all(lived[order[:small], motors:] == 0)
    state = ppo.weights(), ppo.training_state()
    found = []
    for given in (part, large, batch):
        ppo.load(*state)
        found.append(ppo.update(given))
    for name in ("kl", "policy_loss", "value_loss", "clipped"):
        assert found[2][name] == pytest.approx((found[0][name] + found[1][name]) / 2, rel=1e-4)


def test_the_learning_rate_follows_the_divergence():
    ppo = Ppo("set", "fast", (SMALL,), PpoConfig(learning_rate=1e-3, kl=0.02), network=TINY)
    group = ppo.policy_optimiser.param_groups[0]
    for kl, rate in ((0.041, 1 / 1.5), (0.02, 1 / 1.5), (0.009, 1.1 / 1.5)):
        ppo._follow_divergence(kl)
        assert group["lr"] == pytest.approx(1e-3 * rate)


def test_the_first_batch_of_a_rollout_tells_nothing_of_the_divergence():
    ppo = Ppo("set", "fast", (SMALL,), PpoConfig(epochs=1, batch=1000), network=TINY)
    for seed in range(3):
        rollout, body_index = random_rollout(ppo, copies=2, seed=seed)
        (batch,) = ppo.batches(rollout, body_index, np.random.default_rng(0))
        report = ppo.update(batch)
        assert report["kl"] == pytest.approx(0.0, abs=1e-6)
        assert report["learning_rate"] == PpoConfig.learning_rate


def test_motors_without_a_gear_are_left_alone():
    body = get_body("3d_walker_7_full")
    ppo = Ppo("set", "fast", (body,), PpoConfig(), network=TINY)
    gears = np.array([hinge.gear for limb in body.limbs for hinge in limb.hinges])
    assert 0 < (gears == 0).sum() < len(gears)
    observed = np.random.default_rng(0).standard_normal((50, body.num_limbs * FEATURES))
    actions, means = ppo.act(
        observed.astype(np.float32), np.zeros(50, np.int64), np.random.default_rng(1)
    )
    assert np.array_equal((actions != means).all(axis=0), gears != 0)
    assert np.array_equal((actions == means).all(axis=0), gears == 0)


def test_batches_smaller_than_the_number_of_bodies():
    ppo = Ppo("set", "fast", BODIES, PpoConfig(epochs=1, batch=1), network=TINY)
    rollout, body_index = random_rollout(ppo, copies=1, steps=3)
    batches = list(ppo.batches(rollout, body_index, np.random.default_rng(0)))
    assert [len(batch.actions) for batch in batches] == [2, 2, 2]


def test_a_horizon_is_in_seconds():
    humanoid, cheetah = get_body("3d_humanoid_9_full"), get_body("3d_cheetah_14_full")
    config = PpoConfig(horizon=4.0)
    assert config.discount(cheetah) == pytest.approx(1 - 0.04 / 4)
    assert config.discount(humanoid) == pytest.approx(1 - 0.008 / 4)
    assert PpoConfig().discount(humanoid) == pytest.approx(1 - 0.008 / HORIZONS["humanoid"])


def test_returns_are_in_units_of_each_body():
    scale = ReturnScale(BODIES)
    assert scale.mean.tolist() == [0.0, 0.0]
    assert scale.spread.tolist() == [1.0, 1.0]
    rng = np.random.default_rng(0)
    returns = rng.standard_normal((500, 4)) * [3.0, 3.0, 2000.0, 2000.0] + [5.0, 5.0, 9e3, 9e3]
    for _ in range(3):
        scale.update(returns, np.array([0, 0, 1, 1]))
    assert np.allclose(scale.mean, [5.0, 9e3], rtol=0.05)
    assert np.allclose(scale.spread, [3.0, 2000.0], rtol=0.05)


def test_values_count_as_before_in_a_training_that_starts_from_weights():
    ppo, other = (Ppo("set", "fast", BODIES, PpoConfig(), network=TINY) for _ in range(2))
    rollout, body_index = random_rollout(ppo, copies=2)
    rollout.rewards *= 100.0
    list(ppo.batches(rollout, body_index, np.random.default_rng(0)))
    expected = ppo.advantages(rollout, body_index, ppo.seen(rollout, body_index))
    other.load(ppo.weights())
    found = other.advantages(rollout, body_index, other.seen(rollout, body_index))
    assert np.array_equal(found, expected)
    assert ppo.returns.spread.min() > 50.0, "else their units would not matter"


def test_a_training_that_starts_from_weights_starts_slowly():
    ppo, other = (Ppo("set", "fast", BODIES, PpoConfig(), network=TINY) for _ in range(2))
    other.load(ppo.weights())
    rates = [one.policy_optimiser.param_groups[0]["lr"] for one in (ppo, other)]
    assert rates == [PpoConfig().learning_rate, 1e-5]


def test_units_of_bodies_that_were_not_trained_on():
    full, foot = resolve_bodies(("3d_walker_7_full", "3d_walker_5_foot"))
    other = get_body("3d_walker_6_right_foot")
    known = ReturnScale((LARGE, full, foot))
    returns = np.array([[50.0, 100.0, 300.0], [70.0, 120.0, 320.0]])
    known.update(returns, np.arange(3))
    scale = ReturnScale((foot, other, get_body("3d_humanoid_9_full")))
    scale.load_state_dict(known.state_dict())
    assert scale.mean == pytest.approx([310.0, 210.0, 0.0])
    assert scale.spread == pytest.approx([10.0, np.std([100.0, 120.0, 300.0, 320.0]), 1.0])


def test_goes_on_from_its_state_to_the_bit():
    def make():
        return Ppo("set", "fast", BODIES, PpoConfig(epochs=1, batch=20), network=TINY)

    def learn(ppo, seed):
        rollout, body_index = random_rollout(ppo, copies=2, seed=seed)
        for batch in ppo.batches(rollout, body_index, np.random.default_rng(seed)):
            ppo.update(batch)
        ppo.observe(rollout, np.ones((4, 5), bool))

    ppo, other = make(), make()
    learn(ppo, 0)
    other.load(ppo.weights(), ppo.training_state())
    learn(ppo, 1)
    learn(other, 1)
    for name, value in ppo.weights().items():
        assert torch.equal(value, other.weights()[name]), name
    assert ppo.updates == other.updates > 1


def test_refuses_what_is_not_a_number_and_changes_nothing():
    ppo = Ppo("set", "fast", (LARGE,), PpoConfig(epochs=1, batch=1000), network=TINY)
    rollout, body_index = random_rollout(ppo, copies=2)
    (batch,) = ppo.batches(rollout, body_index, np.random.default_rng(0))
    before = ppo.weights()
    with pytest.raises(FloatingPointError, match="policy's loss is nan"):
        ppo.update(replace(batch, advantages=batch.advantages * np.nan))
    rollout.rewards[0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="a return is not finite"):
        next(ppo.batches(rollout, body_index, np.random.default_rng(0)))
    for name, value in before.items():
        assert torch.equal(value, ppo.weights()[name])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rollout": 0}, "rollout must be 1 or more"),
        ({"kl": 0.0}, "kl must be positive"),
        ({"learning_rate": 0.1}, "learning_rate must lie between"),
        ({"trace": 1.5}, "trace must lie between 0 and 1"),
        ({"horizon": -1.0}, "horizon must be positive"),
        ({"entropy": -0.1}, "entropy must not be negative"),
        ({"alive": -1.0}, "alive must not be negative"),
        ({"restraint": float("nan")}, "restraint must not be negative"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        PpoConfig(**settings)
