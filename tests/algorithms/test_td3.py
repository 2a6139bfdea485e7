"""TD3 against numbers worked out by hand, and its state."""

import numpy as np
import pytest
import torch

from sgrl.algorithms.learner import Step
from sgrl.algorithms.replay import Transitions
from sgrl.algorithms.td3_config import TD3Config
from sgrl.envs.observation import FEATURES
from sgrl.models.batch import LimbBatch
from sgrl.models.monolithic import MonolithicConfig
from sgrl.models.set import SETConfig
from sgrl.models.swat import SWATConfig
from sgrl.morphology import resolve_bodies

from .made import NoClock, make_learner

SMALL, LARGE = BODIES = resolve_bodies(("3d_walker_2_right_leg_left_knee", "3d_hopper_5_full"))
TINY = SETConfig(layers=1, embedding=8, hidden=8, matrix_hidden=8)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def random_transitions(bodies, body_index, seed=0, dtype=torch.float32):
    """Transitions of random numbers, a third of them terminated."""
    rng = np.random.default_rng(seed)
    rows = len(body_index)
    width = max(body.num_limbs for body in bodies) * FEATURES
    motors = max(body.action_dim for body in bodies)
    draw = [rng.standard_normal(shape) for shape in ((rows, width), (rows, width), rows)]
    obs, next_obs, rewards = (torch.from_numpy(x).to(dtype) for x in draw)
    actions = torch.from_numpy(rng.uniform(-1, 1, (rows, motors))).to(dtype)
    terminated = (torch.arange(rows) % 3 == 0).to(dtype)
    return Transitions(
        obs, actions, rewards, next_obs, terminated, np.asarray(body_index, np.int64)
    )


def make_td3(method, bodies, network=None, envs=1, **config):
    return make_learner("td3", bodies, method=method, network=network, envs=envs, **config)


def update(td3, batch, seed=0):
    """A gradient step whose noise has this seed."""
    td3.generator.manual_seed(seed)
    return td3.gradient_step(batch)


class Adam:
    """The optimiser written out, for one array."""

    def __init__(self, value, rate):
        self.value, self.rate = value, rate
        self.mean, self.square, self.steps = np.zeros_like(value), np.zeros_like(value), 0

    def step(self, gradient):
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean = self.mean / (1 - 0.9**self.steps)
        root = np.sqrt(self.square / (1 - 0.999**self.steps))
        self.value = self.value - self.rate * mean / (root + 1e-8)


def test_updates_of_linear_networks_by_hand():
    """Four updates in NumPy: the actor is tanh(A x), a critic c · [x, a], gradients by hand."""
    config = TD3Config(learning_rate=1e-2, tau=0.1, max_grad_norm=0.7)
    network = MonolithicConfig(hidden=())
    td3 = make_td3("monolithic", (SMALL,), network, **vars(config))
    for module in (td3.actor, td3.critic, td3.target_actor, td3.target_critic):
        module.double()
    layers = (
        td3.actor.network.layers[0],
        td3.critic.first.network.layers[0],
        td3.critic.second.network.layers[0],
    )
    # With a 1 at the end of its input, a bias is one more weight.
    start = [
        np.column_stack([part.detach().numpy() for part in (layer.weight, layer.bias)])
        for layer in layers
    ]
    actor, first, second = ours = [Adam(value, config.learning_rate) for value in start]
    targets = [value.copy() for value in start]
    ones = np.ones((7, 1))

    def clipped(*gradients):
        norm = np.sqrt(sum((g**2).sum() for g in gradients))
        return norm, [g * min(1.0, config.max_grad_norm / (norm + 1e-6)) for g in gradients]

    for count in range(1, 5):
        batch = random_transitions((SMALL,), [0] * 7, seed=count, dtype=torch.float64)
        report = update(td3, batch, count)

        x, following = (
            LimbBatch.from_flat(obs, SMALL).flat.reshape(7, -1).numpy()
            for obs in (batch.obs, batch.next_obs)
        )
        drawn = (
            torch.randn(7 * SMALL.num_limbs, 3, generator=torch.Generator().manual_seed(count))
            .double()
            .numpy()
        )
        noise = np.clip(0.2 * drawn, -0.5, 0.5).reshape(7, -1)[:, 3:]
        next_action = np.tanh(np.hstack([following, ones]) @ targets[0].T)
        next_action = np.clip(next_action + noise, -1, 1)
        next_input = np.hstack([following, next_action, ones])
        next_q = np.minimum(next_input @ targets[1][0], next_input @ targets[2][0])
        goal = batch.rewards.numpy() + 0.99 * (1 - batch.terminated.numpy()) * next_q

        inputs = np.hstack([x, batch.actions.numpy(), ones])
        errors = [inputs @ critic.value[0] - goal for critic in (first, second)]
        assert report["critic_loss"] == pytest.approx(sum((e**2).mean() for e in errors))
        assert report["q_mean"] == pytest.approx((errors[0] + goal).mean())
        norm, gradients = clipped(*(2 * e[None] @ inputs / 7 for e in errors))
        assert report["critic_grad_norm"] == pytest.approx(norm)
        for critic, gradient in zip((first, second), gradients, strict=True):
            critic.step(gradient)

        assert ("actor_loss" in report) == (count % 2 == 0)
        if count % 2 == 0:
            state = np.hstack([x, ones])
            action = np.tanh(state @ actor.value.T)
            q = np.hstack([x, action, ones]) @ first.value[0]
            assert report["actor_loss"] == pytest.approx(-q.mean())
            slope = first.value[0][x.shape[1] : -1]
            norm, (gradient,) = clipped(-((1 - action**2) * slope).T @ state / 7)
            assert report["actor_grad_norm"] == pytest.approx(norm)
            actor.step(gradient)
            targets = [0.9 * t + 0.1 * o.value for t, o in zip(targets, ours, strict=True)]

        found = (td3.actor.network, td3.critic.first.network, td3.critic.second.network)
        goals = (td3.target_actor.network, td3.target_critic.first.network)
        expected = [o.value for o in ours] + targets[:2]
        for made, value in zip((*found, *goals), expected, strict=True):
            (layer,) = made.layers
            np.testing.assert_allclose(layer.weight.detach(), value[:, :-1], rtol=0, atol=1e-10)
            np.testing.assert_allclose(layer.bias.detach(), value[:, -1], rtol=0, atol=1e-10)
    assert td3.updates == 4


class PlaceValues(torch.nn.Module):
    """Twin critics that give limb k of each body Q = base + up k and Q = base + down (2 - k)."""

    def __init__(self, base, up=0.0, down=0.0):
        super().__init__()
        self.base = torch.nn.Parameter(torch.tensor(base))
        self.up, self.down = up, down

    def forward(self, batch, action):
        place = batch.layout.limb_index.float()
        return self.base + self.up * place, self.base + self.down * (2 - place)


@pytest.mark.parametrize("per_limb", [False, True])
def test_q_per_limb_and_mean(per_limb):
    """A row of 2 limbs and one of 5, values of the limbs known."""
    config = {"gamma": 0.5, "per_limb": per_limb, "policy_delay": 9}
    td3 = make_td3("swat", BODIES, SWATConfig(layers=1, embedding=8), **config)
    td3.critic, td3.target_critic = PlaceValues(0.0, 1.0, 2.0), PlaceValues(10.0, 1.0, 2.0)
    batch = random_transitions(BODIES, [0, 1])
    batch.rewards[:], batch.terminated[:] = torch.tensor([1.0, 2.0]), 0.0
    report = update(td3, batch)
    small, large = np.arange(SMALL.num_limbs), np.arange(LARGE.num_limbs)
    loss = 0.0
    for place, reward in ((small, 1.0), (large, 2.0)):
        q1, q2 = 1.0 * place, 4.0 - 2 * place
        if per_limb:
            goal = reward + 0.5 * np.minimum(10 + q1, 10 + q2)
        else:
            q1, q2 = q1.mean(), q2.mean()
            goal = reward + 0.5 * min(10 + q1, 10 + q2)
        # Each row counts the same, however many limbs it has.
        loss += (np.mean((q1 - goal) ** 2) + np.mean((q2 - goal) ** 2)) / 2
    assert report["critic_loss"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("per_limb", [False, True])
def test_a_time_out_bootstraps_and_a_termination_does_not(per_limb):
    td3 = make_td3("set", BODIES, TINY, per_limb=per_limb, policy_delay=9)
    for terminated, goal in ((0.0, 1.0 + 0.99 * 50.0), (1.0, 1.0)):
        td3.critic, td3.target_critic = PlaceValues(0.0), PlaceValues(50.0)
        batch = random_transitions(BODIES, [0, 1])
        batch.rewards[:], batch.terminated[:] = 1.0, terminated
        report = update(td3, batch)
        assert report["critic_loss"] == pytest.approx(2 * goal**2, rel=1e-5)


def test_actions_lie_in_range_and_only_on_motors():
    td3 = make_td3("set", BODIES, TINY, envs=[0, 1, 0, 1], exploration_noise=0.5, learning_starts=0)
    batch = random_transitions(BODIES, td3.layout.body_index)
    obs, body_index = batch.obs.numpy(), batch.body_index
    plain = td3.policy_actions(obs, body_index)
    assert plain.shape == (4, LARGE.action_dim)
    assert plain.dtype == np.float32
    np.testing.assert_array_equal(plain, td3.policy_actions(obs, body_index))
    noise = td3.acting.bit_generator.state
    noisy, extras = td3.act(obs)
    assert not extras
    td3.acting.bit_generator.state = noise
    np.testing.assert_array_equal(noisy, td3.act(obs)[0])
    motors = SMALL.action_dim
    for actions in (plain, noisy):
        assert np.abs(actions).max() <= 1.0
        assert not actions[::2, motors:].any()
    assert (noisy[:, :motors] != plain[:, :motors]).all()
    # A body alone, still padded, acts as it does in the mix.
    alone = td3.policy_actions(obs[::2], body_index[::2])
    assert alone.shape == (2, LARGE.action_dim)
    np.testing.assert_allclose(alone, plain[::2], atol=1e-6)


def test_exploration_noise_has_its_size():
    td3 = make_td3("set", (LARGE,), TINY, envs=2000, learning_starts=0)
    for parameter in td3.actor.parameters():
        parameter.data.zero_()
    actions, _ = td3.act(random_transitions((LARGE,), [0] * 2000).obs.numpy())
    assert actions.std() == pytest.approx(0.126, rel=0.02)


def test_it_starts_with_random_actions_and_then_owes_updates():
    td3 = make_td3("set", BODIES, TINY, envs=2, learning_starts=8, utd_ratio=0.5)
    obs = np.zeros((4, td3.layout.width), np.float32)
    nothing = np.zeros(4, bool)
    reports = []
    for _ in range(2):
        actions, _ = td3.act(obs)
        assert np.abs(actions).max() > 0.5, "uniform"
        assert not actions[~td3.layout.action_mask].any()
        td3.store(Step(obs, actions, np.zeros(4), obs, obs, nothing, nothing))
        assert not td3.pending
    td3.store(Step(obs, td3.act(obs)[0], np.zeros(4), obs, obs, nothing, nothing))
    assert td3.pending
    td3.update(reports.append, NoClock(), lambda: len(reports) == 1)
    assert td3.updates == len(reports) == 1
    assert td3.pending, "what can wait stays due"
    td3.update(reports.append, NoClock(), lambda: False)
    assert td3.updates == len(reports) == 2
    assert not td3.pending
    assert set().union(*reports) == set(td3.metrics)


@pytest.mark.parametrize("method", ["set", "swat+hn"])
def test_a_loaded_state_goes_on_to_the_bit(method):
    networks = {"set": TINY, "swat+hn": SWATConfig(layers=1, embedding=8)}

    def make(seed):
        torch.manual_seed(seed)
        return make_td3(method, BODIES, networks[method])

    batches = [random_transitions(BODIES, [0, 1, 1, 0], seed) for seed in range(6)]
    one, other = make(0), make(1)
    for batch in batches[:3]:
        update(one, batch)
    weights, state = one.weights(), one.state_dict()
    reports = [update(one, batch) for batch in batches[3:]]
    # What was taken out are copies: later updates did not reach them.
    other.load_state_dict(weights, state)
    assert other.updates == 3
    assert [update(other, batch) for batch in batches[3:]] == reports
    for name, value in other.weights().items():
        assert torch.equal(value, one.weights()[name]), name
    # Weights alone are a new start from them.
    assert other.load_weights(weights) == ""
    assert other.updates == 0
    assert not other.actor_optimizer.state
    for made, copied in zip(other.actor.parameters(), other.target_actor.parameters(), strict=True):
        assert torch.equal(made, copied)


def test_weights_of_another_method_or_size_are_refused():
    td3 = make_td3("set", BODIES, TINY)
    before = td3.weights()
    for other, message in (
        (make_td3("swat", BODIES), "another method or size"),
        (make_td3("set", BODIES, SETConfig(layers=2)), "another method or size"),
        (
            make_td3("set", BODIES, SETConfig(layers=1, embedding=16)),
            r"another size or body: \S+ is \(\d+,.*not",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            td3.load_state_dict(other.weights(), other.state_dict())
        with pytest.raises(ValueError, match=message):
            td3.load_weights(other.weights())
    assert all(torch.equal(value, before[name]) for name, value in td3.weights().items())


def test_what_is_not_finite_stops_before_any_weight_changes():
    td3 = make_td3("set", BODIES, TINY)
    before = td3.weights()
    batch = random_transitions(BODIES, [0, 1])
    batch.rewards[0] = float("nan")
    with pytest.raises(FloatingPointError, match="the critic's loss is nan"):
        update(td3, batch)
    assert all(torch.equal(value, before[name]) for name, value in td3.weights().items())
    assert td3.updates == 0


def test_senseless_settings_are_refused():
    for change in ({"gamma": 1.5}, {"tau": -1}, {"batch_size": 0}, {"target_noise": -0.1}):
        with pytest.raises(ValueError, match=next(iter(change))):
            TD3Config(**change)
