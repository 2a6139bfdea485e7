"""PPO against numbers worked out by hand, on a toy problem, and its state."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from sgrl.algorithms.config import Plan
from sgrl.algorithms.learner import Setup, Step
from sgrl.algorithms.ppo import PPO
from sgrl.algorithms.ppo_config import HORIZONS, PPOConfig
from sgrl.algorithms.return_normalizer import ReturnNormalizer
from sgrl.algorithms.rollout_buffer import Batch
from sgrl.envs.observation import ANGLES, FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.monolithic import MonolithicConfig
from sgrl.models.set import SETConfig
from sgrl.models.swat import SWATConfig
from sgrl.morphology import get_body, resolve_bodies

from .made import NoClock, make_learner
from .test_td3 import Adam
from .test_toy import BODY, NETWORKS, states

SMALL, LARGE = BODIES = resolve_bodies(("3d_walker_2_right_leg_left_knee", "3d_hopper_5_full"))
TINY = SETConfig(layers=1, embedding=8, hidden=8, matrix_hidden=8)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def make_ppo(bodies, network=TINY, method="set", envs=1, **config):
    """With rollouts of 8 steps."""
    how = {"method": method, "network": network, "envs": envs}
    return make_learner("ppo", bodies, **how, **({"n_steps": 8} | config))


def collect(ppo, seed=0):
    """Fill the rollout: random rewards and observations under the policy's own actions."""
    rng = np.random.default_rng(seed)
    num_envs, width = ppo.layout.num_envs, ppo.layout.width
    steps = ppo.config.n_steps
    obs = rng.standard_normal((steps + 1, num_envs, width)).astype(np.float32)
    ppo.rollout.clear()
    for t in range(steps):
        actions, extras = ppo.act(obs[t])
        done = rng.uniform(size=num_envs) < 0.3
        terminated = done & (rng.uniform(size=done.shape) < 0.5)
        rewards = rng.standard_normal(num_envs)
        ppo.store(
            Step(obs[t], actions, rewards, obs[t + 1], obs[t + 1] + 1, terminated, done, extras)
        )
    return ppo.rollout


def learn(ppo, seed=0):
    """Collect a rollout and learn from it; what the gradient steps reported."""
    reports = []
    collect(ppo, seed)
    ppo.update(reports.append, NoClock(), lambda: False)
    return reports


def log_density(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


def test_updates_of_linear_networks_by_hand():
    """Three steps in NumPy: the mean is tanh(A x), the value c · x, gradients by hand."""
    ppo = make_ppo(
        (SMALL,),
        MonolithicConfig(hidden=()),
        "monolithic",
        learning_rate=3e-3,
        value_learning_rate=2e-2,
        max_grad_norm=0.3,
        desired_kl=1e6,
        action_penalty_coef=0.4,
    )
    ppo.policy.double(), ppo.value.double()
    rng = np.random.default_rng(0)
    rows, motors = 6, SMALL.action_dim
    layers = (ppo.policy.actor.network.layers[0], ppo.value.network.layers[0])
    start = [
        np.column_stack([part.detach().numpy() for part in (layer.weight, layer.bias)])
        for layer in layers
    ]
    actor, critic = Adam(start[0], 3e-3), Adam(start[1], 2e-2)
    log_std = Adam(ppo.policy.log_std.detach().numpy().copy(), 3e-3)
    observed = torch.from_numpy(rng.standard_normal((rows, SMALL.num_limbs * FEATURES)))
    batch = LimbBatch.from_flat(observed, SMALL)
    x = np.hstack([batch.flat.reshape(rows, -1).numpy(), np.ones((rows, 1))])
    old_means, old_log_std = np.tanh(x @ start[0].T), log_std.value.copy()
    actions = old_means + np.exp(old_log_std) * rng.standard_normal((rows, motors))
    gains, returns = rng.standard_normal((2, rows))
    # The last motor moves nothing, so that its action says nothing.
    actuated = np.ones((rows, motors))
    actuated[:, -1] = 0.0
    numbers = (actions, old_means, old_log_std, gains, returns, actuated)
    given = Batch(batch, *map(torch.from_numpy, numbers))
    rate = 3e-3
    for _ in range(3):
        report = ppo.gradient_step(given)

        unbounded = x @ actor.value.T
        means, std = np.tanh(unbounded), np.exp(log_std.value)
        log_ratio = log_density(actions, means, std) - log_density(
            actions, old_means, np.exp(old_log_std)
        )
        ratio = np.exp((actuated * log_ratio).sum(axis=1))
        free, bounded = ratio * gains, np.clip(ratio, 0.8, 1.2) * gains
        excess = (actuated * unbounded**2).sum(axis=1) / actuated.sum(axis=1)
        loss = (0.4 * excess - np.minimum(free, bounded)).mean()
        assert report["policy_loss"] == pytest.approx(loss)
        assert report["clip_fraction"] == pytest.approx((np.abs(ratio - 1) > 0.2).mean())
        kl = (
            (np.exp(2 * old_log_std) + (old_means - means) ** 2) / (2 * std**2)
            - 0.5
            + (log_std.value - old_log_std)
        )
        assert report["approx_kl"] == pytest.approx((actuated * kl).sum(axis=1).mean())
        # Where the bound holds it is constant. The slope of a ratio is the ratio's times that
        # of its logarithm.
        outer = np.where(free <= bounded, -free, 0.0) / rows
        away = (actions - means) / std**2
        to_unbounded = outer[:, None] * actuated * away * (1 - means**2)
        to_mean = (to_unbounded + 0.8 * actuated * unbounded / actuated.sum()).T @ x
        to_log_std = outer @ (actuated * (away * (actions - means) - 1))
        size = np.sqrt((to_mean**2).sum() + (to_log_std**2).sum())
        assert report["policy_grad_norm"] == pytest.approx(size)
        error = x @ critic.value[0] - returns
        assert report["value_loss"] == pytest.approx(0.5 * (error**2).mean())
        to_value = error[None] @ x / rows
        value_size = np.sqrt((to_value**2).sum())
        assert report["value_grad_norm"] == pytest.approx(value_size)
        # The divergence is far below what is asked for, so the rate grows at every step.
        rate *= 1.1
        assert report["learning_rate"] == pytest.approx(rate)
        actor.rate = log_std.rate = rate
        scale = min(1.0, 0.3 / (size + 1e-6))
        actor.step(scale * to_mean)
        log_std.step(scale * to_log_std)
        critic.step(min(1.0, 0.3 / (value_size + 1e-6)) * to_value)
        for layer, ours in zip(layers, (actor, critic), strict=True):
            theirs = np.column_stack([p.detach().numpy() for p in (layer.weight, layer.bias)])
            assert np.allclose(theirs, ours.value, atol=1e-9)
        assert np.allclose(ppo.policy.log_std.detach().numpy(), log_std.value, atol=1e-9)


def test_bandit():
    """Episodes of one step with large rewards: each hinge should act as the half of its angle."""
    num_envs = 256
    ppo = make_ppo(
        (BODY,),
        NETWORKS["set"],
        envs=num_envs,
        n_steps=1,
        n_epochs=4,
        batch_size=128,
        learning_rate=1e-3,
    )
    rng = np.random.default_rng(0)
    fresh = states(rng, num_envs)

    def distance(observed, actions):
        wanted = 0.5 * observed[:, 1:, ANGLES].reshape(len(observed), -1)
        return ((actions - wanted) ** 2).mean(axis=-1)

    def error():
        _, extras = ppo.act(fresh.reshape(num_envs, -1))
        return distance(fresh, extras["means"]).mean()

    at_start = error()
    for _ in range(60):
        observed = states(rng, num_envs)
        obs = observed.reshape(num_envs, -1)
        actions, extras = ppo.act(obs)
        rewards = 1000.0 * (3.0 - distance(observed, actions))
        ended = np.ones(num_envs, bool)
        ppo.store(Step(obs, actions, rewards, obs, obs, ended, ended, extras))
        for batch in ppo.batches():
            ppo.gradient_step(batch)
        ppo.rollout.clear()
    assert error() < 0.02, (at_start, error())


def test_time_limits_bootstrap_from_the_last_observation_and_falls_do_not():
    ppo = make_ppo((LARGE,), envs=6, gae_lambda=0.0)
    rollout = collect(ppo)
    advantages, returns = ppo.advantages(ppo._observed())

    def value(flat):
        batch = LimbBatch.from_flat(torch.from_numpy(flat), LARGE)
        return batch.layout.row_mean(ppo.value(batch)).detach().numpy()

    kinds = set()
    for t in range(8):
        truncated = rollout.done[t] & ~rollout.terminated[t]
        # `collect` makes the last observation of an episode 1 larger than the next first.
        next_value = value(rollout.obs[t + 1] + truncated[:, None].astype(np.float32))
        next_value = np.where(rollout.terminated[t], 0.0, next_value)
        expected = rollout.rewards[t] + ppo.gamma[0] * next_value
        assert np.allclose(returns[t], expected, atol=1e-5)
        assert np.allclose(advantages[t], expected - value(rollout.obs[t]), atol=1e-5)
        kinds |= set(zip(rollout.done[t], rollout.terminated[t], strict=True))
    assert len(kinds) == 3


def test_a_survival_bonus_is_added_to_steps_without_a_fall():
    plain, careful = (make_ppo((LARGE,), envs=6, survival_bonus=bonus) for bonus in (0.0, 5.0))
    careful.load_weights(plain.weights())
    rollout = collect(plain)
    careful.rollout = rollout
    rewards = rollout.rewards.copy()
    _, more = careful.advantages(careful._observed())
    assert np.array_equal(rollout.rewards, rewards)
    assert rollout.terminated.any()
    assert (rollout.done & ~rollout.terminated).any()
    rollout.rewards[~rollout.terminated] += 5.0
    _, expected = plain.advantages(plain._observed())
    np.testing.assert_allclose(more, expected)


def test_bodies_share_every_batch_and_every_row_comes_once_an_epoch():
    network = SWATConfig(layers=1, embedding=8)
    ppo = make_ppo(BODIES, network, "swat", envs=3, n_epochs=2, batch_size=12)
    rollout = collect(ppo)
    batches = list(ppo.batches())
    assert len(batches) == 2 * 4
    for batch in batches:
        assert np.bincount(batch.rows.layout.body_index.numpy()).tolist() == [6, 6]
    assert len({id(batch.rows.layout) for batch in batches}) == 1
    for epoch in (batches[:4], batches[4:]):
        actions = torch.cat([batch.actions for batch in epoch]).numpy()
        stored = rollout.actions.reshape(-1, rollout.actions.shape[-1])
        assert sorted(map(tuple, actions)) == sorted(map(tuple, stored))
    assert not torch.equal(batches[0].actions, batches[4].actions)
    # Whatever a body's rewards are, its advantages count the same.
    first = torch.cat([batch.advantages[:6] for batch in batches[:4]])
    assert abs(first.mean()) < 1e-6
    assert first.std(correction=0) == pytest.approx(1.0, abs=1e-5)


def test_padding_does_not_count():
    """A body's rows give the same probabilities and divergence in a mix as alone."""
    ppo = make_ppo(BODIES, envs=2, n_epochs=1, batch_size=1000)
    rollout = collect(ppo)
    (batch,) = ppo.batches()
    ppo.rollout.clear()
    with torch.no_grad():
        for parameter in ppo.policy.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    small = len(batch.actions) // 2
    observed = rollout.obs[:-1].reshape(2 * small, -1)
    stored = rollout.actions.reshape(2 * small, -1)
    order = [int(np.flatnonzero((stored == a).all(axis=1))[0]) for a in batch.actions.numpy()]
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
        batch.actuated[:small, :motors],
    )
    large = Batch(
        LimbBatch.from_flat(torch.from_numpy(observed[order[small:]]), LARGE),
        batch.actions[small:],
        batch.means[small:],
        batch.log_std,
        batch.advantages[small:],
        batch.returns[small:],
        batch.actuated[small:],
    )
    assert np.all(stored[order[:small], motors:] == 0)
    state = ppo.weights(), ppo.state_dict()
    found = []
    for given in (part, large, batch):
        ppo.load_state_dict(*state)
        found.append(ppo.gradient_step(given))
    for name in ("approx_kl", "policy_loss", "value_loss", "clip_fraction"):
        assert found[2][name] == pytest.approx((found[0][name] + found[1][name]) / 2, rel=1e-4)


def test_the_learning_rate_follows_the_divergence():
    ppo = make_ppo((SMALL,), learning_rate=1e-3, desired_kl=0.02)
    group = ppo.policy_optimizer.param_groups[0]
    for kl, rate in ((0.041, 1 / 1.5), (0.02, 1 / 1.5), (0.009, 1.1 / 1.5)):
        ppo._follow_kl(kl)
        assert group["lr"] == pytest.approx(1e-3 * rate)


def test_the_first_batch_of_a_rollout_tells_nothing_of_the_divergence():
    ppo = make_ppo((SMALL,), envs=2, n_epochs=1, batch_size=1000)
    for seed in range(3):
        collect(ppo, seed)
        (batch,) = ppo.batches()
        report = ppo.gradient_step(batch)
        assert report["approx_kl"] == pytest.approx(0.0, abs=1e-6)
        assert report["learning_rate"] == PPOConfig().learning_rate


def test_motors_without_a_gear_are_left_alone():
    body = get_body("3d_walker_7_full")
    ppo = make_ppo((body,), envs=50)
    gears = np.array([hinge.gear for limb in body.limbs for hinge in limb.hinges])
    assert 0 < (gears == 0).sum() < len(gears)
    obs = np.random.default_rng(0).standard_normal((50, body.num_limbs * FEATURES))
    actions, extras = ppo.act(obs.astype(np.float32))
    assert np.array_equal((actions != extras["means"]).all(axis=0), gears != 0)
    assert np.array_equal((actions == extras["means"]).all(axis=0), gears == 0)


def test_batches_smaller_than_the_number_of_bodies():
    ppo = make_ppo(BODIES, n_steps=3, n_epochs=1, batch_size=1)
    collect(ppo)
    assert [len(batch.actions) for batch in ppo.batches()] == [2, 2, 2]


def test_a_horizon_is_in_seconds():
    bodies = resolve_bodies(("3d_humanoid_9_full", "3d_cheetah_14_full"))
    config = PPOConfig(horizon=4.0)
    assert config.discounts(bodies) == pytest.approx((1 - 0.008 / 4, 1 - 0.04 / 4))
    config = PPOConfig(horizon=(2.0, 8.0))
    assert config.discounts(bodies) == pytest.approx((1 - 0.008 / 2, 1 - 0.04 / 8))
    # A default is recorded for each body, so that another one changes no run that there is.
    plan = Plan(bodies, "set", False, 1_000, 1)
    config = PPOConfig().resolved(plan)
    assert config.horizon == (HORIZONS["humanoid"], HORIZONS["cheetah"])
    assert config.resolved(plan) == config
    with pytest.raises(ValueError, match="one for each of the 2 bodies, not 3"):
        PPOConfig(horizon=(1.0, 2.0, 3.0)).resolved(plan)


def test_a_mirror_needs_a_network_that_takes_the_image():
    body = get_body("3d_humanoid_8_left_knee")
    config = PPOConfig(mirror_loss_coef=0.3)
    config.resolved(Plan((body,), "set", False, 1_000, 1))
    with pytest.raises(ValueError, match=r"leave --ppo\.mirror-loss-coef out"):
        config.resolved(Plan((body,), "monolithic", True, 1_000, 1))


def test_returns_are_in_units_of_each_body():
    normalizer = ReturnNormalizer(BODIES)
    assert normalizer.mean.tolist() == [0.0, 0.0]
    assert normalizer.std.tolist() == [1.0, 1.0]
    rng = np.random.default_rng(0)
    returns = rng.standard_normal((500, 4)) * [3.0, 3.0, 2000.0, 2000.0] + [5.0, 5.0, 9e3, 9e3]
    for _ in range(3):
        normalizer.update(returns, np.array([0, 0, 1, 1]))
    assert np.allclose(normalizer.mean, [5.0, 9e3], rtol=0.05)
    assert np.allclose(normalizer.std, [3.0, 2000.0], rtol=0.05)


def test_values_count_as_before_in_a_training_that_starts_from_weights():
    ppo, other = (make_ppo(BODIES, envs=2) for _ in range(2))
    collect(ppo)
    ppo.rollout.rewards *= 100.0
    list(ppo.batches())
    expected = ppo.advantages(ppo._observed())
    assert other.load_weights(ppo.weights()) == ""
    other.rollout = ppo.rollout
    assert np.array_equal(other.advantages(other._observed()), expected)
    assert ppo.return_normalizer.std.min() > 50.0, "else their units would not matter"


def test_a_training_that_starts_from_weights_starts_slowly():
    ppo, other = (make_ppo(BODIES) for _ in range(2))
    other.load_weights(ppo.weights())
    rates = [one.policy_optimizer.param_groups[0]["lr"] for one in (ppo, other)]
    assert rates == [PPOConfig().learning_rate, 1e-5]


def test_statistics_of_returns_of_bodies_that_were_not_trained_on():
    full, foot = resolve_bodies(("3d_walker_7_full", "3d_walker_5_foot"))
    other = get_body("3d_walker_6_right_foot")
    known = ReturnNormalizer((LARGE, full, foot))
    returns = np.array([[50.0, 100.0, 300.0], [70.0, 120.0, 320.0]])
    known.update(returns, np.arange(3))
    normalizer = ReturnNormalizer((foot, other, get_body("3d_humanoid_9_full")))
    normalizer.load_state_dict(known.state_dict())
    assert normalizer.mean == pytest.approx([310.0, 210.0, 0.0])
    assert normalizer.std == pytest.approx([10.0, np.std([100.0, 120.0, 300.0, 320.0]), 1.0])


def test_goes_on_from_its_state_to_the_bit():
    ppo, other = (make_ppo(BODIES, envs=2, n_epochs=1, batch_size=20) for _ in range(2))
    learn(ppo, seed=0)
    assert ppo.can_checkpoint
    other.load_state_dict(ppo.weights(), ppo.state_dict())
    assert learn(ppo, seed=1) == learn(other, seed=1)
    for name, value in ppo.weights().items():
        assert torch.equal(value, other.weights()[name]), name
    assert ppo.updates == other.updates > 1


@pytest.mark.parametrize(
    ("how", "minutes", "steps", "compiled"),
    [
        ("auto", None, 10_000_000, True),
        ("auto", None, 10_000, False),
        ("auto", 0.1, 10_000_000, False),
        ("yes", 0.1, 10_000, True),
        ("no", None, 10_000_000, False),
    ],
)
def test_updates_are_compiled_if_it_pays(how, minutes, steps, compiled, monkeypatch):
    monkeypatch.setattr("sgrl.algorithms.speed.shutil.which", lambda name: name)
    ppo = make_ppo((SMALL,))
    setup = replace(
        Setup((SMALL,), "set", "fast", TINY, ppo.layout, 0, "cpu", steps), minutes=minutes
    )
    plan = Plan((SMALL,), "set", False, steps, 1)
    ppo = PPO(PPOConfig(compile=how).resolved(plan), setup)
    assert ppo.losses.speed.compiled == compiled
    assert ("not compiled" not in ppo.describe()) == compiled
    # A resumed run goes on as it began.
    other = make_ppo((SMALL,))
    other.load_state_dict(ppo.weights(), ppo.state_dict())
    assert other.losses.speed == ppo.losses.speed


def test_where_compiling_fails_updates_are_plain(monkeypatch):
    plain, compiled = (make_ppo(BODIES, batch_size=8, compile=how) for how in ("no", "yes"))
    compiled.load_state_dict(plain.weights(), plain.state_dict())
    calls = []

    def fail(batch):
        calls.append(batch)
        raise RuntimeError("no such header\nand more")

    monkeypatch.setattr(torch, "compile", lambda plain, dynamic: fail)
    compiled.losses.set_speed(replace(plain.losses.speed, compiled=True))
    monkeypatch.undo()
    expected = learn(plain)
    with pytest.warns(UserWarning, match="can't be compiled here, .*: no such header$"):
        assert learn(compiled) == expected
    assert len(calls) == 2, "for Ctrl-C stops the compiler, too"
    assert compiled.state_dict()["speed"]["why_plain"] == "compiling failed"


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_compiled_losses_are_the_plain_ones():
    plain, compiled = (
        make_ppo((LARGE,), MonolithicConfig(hidden=(8,)), "monolithic", envs=2, compile=how)
        for how in ("no", "yes")
    )
    compiled.load_state_dict(plain.weights(), plain.state_dict())
    compiled.losses.set_speed(replace(plain.losses.speed, compiled=True))
    for ppo in (plain, compiled):
        collect(ppo)
    for batch, other in zip(plain.batches(), compiled.batches(), strict=True):
        report, found = plain.gradient_step(batch), compiled.gradient_step(other)
        assert found == pytest.approx(report, rel=1e-3, abs=1e-5)


def test_a_checkpoint_waits_for_the_end_of_a_rollout():
    ppo = make_ppo((SMALL,), envs=2)
    assert ppo.can_checkpoint
    collect(ppo)
    assert not ppo.can_checkpoint
    ppo.update(lambda report: None, NoClock(), lambda: True)
    assert ppo.can_checkpoint


def test_refuses_what_is_not_a_number_and_changes_nothing():
    ppo = make_ppo((LARGE,), envs=2, n_epochs=1, batch_size=1000)
    rollout = collect(ppo)
    (batch,) = ppo.batches()
    before = ppo.weights()
    with pytest.raises(FloatingPointError, match="policy's loss is nan"):
        ppo.gradient_step(replace(batch, advantages=batch.advantages * np.nan))
    rollout.rewards[0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="a return is not finite"):
        next(ppo.batches())
    for name, value in before.items():
        assert torch.equal(value, ppo.weights()[name])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_steps": 0}, "n_steps must lie between 1 and"),
        ({"desired_kl": 0.0}, "desired_kl must be above 0"),
        ({"learning_rate": 0.1}, "learning_rate must lie between"),
        ({"gae_lambda": 1.5}, "gae_lambda must lie between 0.0 and 1.0"),
        ({"horizon": -1.0}, "horizon must be above 0"),
        ({"horizon": (1.0, float("inf"))}, "horizon must be above 0"),
        ({"ent_coef": -0.1}, "ent_coef must lie between 0"),
        ({"survival_bonus": -1.0}, "survival_bonus must lie between 0"),
        ({"action_penalty_coef": float("nan")}, "action_penalty_coef must lie between 0"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        PPOConfig(**settings)
