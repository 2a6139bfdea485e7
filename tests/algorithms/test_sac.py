"""SAC: its update against numbers worked out by hand, its parts, and a toy that it must solve."""

import math

import numpy as np
import pytest
import torch

from sgrl.algorithms.config import Plan
from sgrl.algorithms.equal_rows import EqualRows
from sgrl.algorithms.learner import Step
from sgrl.algorithms.sac import HeldNoise, RewardScale
from sgrl.algorithms.sac_config import SACConfig
from sgrl.algorithms.sac_critics import FlatCritic
from sgrl.algorithms.speed import Speed, fastest_products
from sgrl.envs.columns import varying_columns
from sgrl.envs.observation import ANGLES, FEATURES, GRAVITY, GRAVITY_DIRECTION, TARGET
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.batch import LimbBatch, layout_of
from sgrl.models.monolithic import MonolithicConfig
from sgrl.models.set import SETConfig
from sgrl.morphology import get_body, mirror_of
from sgrl.symmetry import rotation, transform

from .made import NoClock, make_learner

BODY = get_body("3d_walker_2_right_leg_left_knee")
HOPPER = get_body("3d_hopper_3_shin")
ASYMMETRIC = get_body("3d_walker_3_left_leg_right_foot")
SMALL = {
    "set": SETConfig(layers=1, embedding=16, hidden=16, matrix_hidden=16),
    "monolithic+tn": MonolithicConfig(hidden=(32, 32), columns="varying", layer_norm=True),
}
PLAIN = {"compile": "no", "products": "float32", "critic_width": 32}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def made(bodies, method="set", **config):
    return make_learner(
        "sac", bodies, method=method, network=SMALL[method], **PLAIN | {"batch_size": 8} | config
    )


def random_walk(learner, bodies, envs, steps, seed=0):
    """Steps of real environments under the learner; what its updates reported."""
    env = LocomotionVectorEnv(bodies, envs, threads=1)
    obs, _ = env.reset(seed=seed)
    reports = []
    for _ in range(steps):
        actions, _ = learner.act(obs)
        after, rewards, terminated, truncated, infos = env.step(actions)
        done = terminated | truncated
        final = np.where(done[:, None], infos["final_obs"], after) if done.any() else after
        learner.store(Step(obs, actions, rewards, after, final, terminated, done))
        learner.update(reports.append, NoClock(), lambda: False)
        obs = after
    return reports


class Fixed(torch.nn.Module):
    """Gives the same whatever it reads."""

    def __init__(self, *values):
        super().__init__()
        self.values = values if len(values) > 1 else values[0]

    def forward(self, *inputs):
        return self.values


def test_target_by_hand():
    """y = R + gamma^n (min Q' - alpha log pi), with log pi worked out for one motor."""
    learner = made([HOPPER], batch_size=2, mirror=False)
    layout = learner.networks.rows.layout
    mean = torch.zeros(layout.num_limbs, 3)
    log_std = torch.full((layout.num_limbs, 3), math.log(0.5))
    learner.networks.actor.network = Fixed(mean, log_std)
    learner.networks.target_critic = Fixed(torch.tensor([[3.0, 4.0], [2.0, 5.0]]))
    noise = torch.zeros(layout.num_limbs, 3)
    noise[1, 1] = 1.0  # of the first row
    columns = torch.zeros(2, learner.replay.num_columns)
    y = learner.networks._target(
        columns, noise, torch.tensor([1.0, 10.0]), torch.tensor([0.9, 0.0]), torch.tensor([0.1, 7])
    )
    motors = int(HOPPER.actuated.sum())
    # log N(0.5; 0, 0.5) - log(1 - tanh(0.5)^2) of the motor that moves, log N(0; 0, 0.5) of others
    still = -math.log(0.5 * math.sqrt(2 * math.pi))
    moved = still - 0.5 - math.log(1 - math.tanh(0.5) ** 2)
    log_prob = (motors - 1) * still + moved
    assert y.tolist() == pytest.approx([1.0 + 0.9 * (2.0 - 0.1 * log_prob), 10.0], rel=1e-5)


def test_critic_and_actor_losses_by_hand():
    learner = made([HOPPER], batch_size=2, mirror=False)
    layout = learner.networks.rows.layout
    learner.networks.critic = Fixed(torch.tensor([[3.0, 4.0], [2.0, 5.0]]))
    columns, actions = torch.zeros(2, learner.replay.num_columns), torch.zeros(2, 6)
    loss, q_mean = learner.networks._critic_loss(columns, actions, torch.tensor([1.0, 4.0]))
    assert loss.item() == pytest.approx((4 + 0) / 2 + (1 + 1) / 2)
    assert q_mean.item() == pytest.approx(3.5)
    zeros = torch.zeros(layout.num_limbs, 3)
    learner.networks.actor.network = Fixed(zeros, zeros)
    loss, log_prob = learner.networks._actor_loss(columns, zeros, torch.tensor([0.5, 0.5]))
    expected = -int(HOPPER.actuated.sum()) * 0.5 * math.log(2 * math.pi)
    assert log_prob.tolist() == pytest.approx([expected] * 2, rel=1e-5)
    assert loss.item() == pytest.approx(0.5 * expected - (2.0 + 4.0) / 2, rel=1e-5)


def test_each_body_has_an_entropy_coefficient():
    """One that acts too randomly loses, one that acts too surely gains; each its own."""
    learner = made([HOPPER, BODY], mirror=False, target_entropy=-1.0, initial_alpha=0.5)
    motors = torch.tensor([float(body.actuated.sum()) for body in (HOPPER, BODY)])
    entropy = (
        motors[learner.networks.rows.unit_index]
        * torch.tensor([0.0, -3.0])[learner.networks.rows.unit_index]
    )
    loss = learner.networks._alpha_loss(-entropy)
    # L = mean alpha (H(pi) - H), H = -1 a motor
    expected = 0.5 * (1.0 * motors[0] - 2.0 * motors[1]) / 2
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    assert learner.networks.log_alpha.grad[0] > 0 > learner.networks.log_alpha.grad[1]


def test_reward_scale_by_hand():
    """The largest discounted return over 5, or the standard deviation of returns."""
    scale = RewardScale([HOPPER, BODY], [0.5, 0.5], np.array([0, 0, 1]))
    scale.update(np.array([40.0, 40.0, 0.0]), np.zeros(3, bool))
    scale.update(np.array([40.0, 40.0, 0.0]), np.array([True, False, False]))
    scale.update(np.array([0.0, 0.0, 0.0]), np.zeros(3, bool))
    # returns 40, 40, 60, 60, then 0 and 30: mean 38.33, deviation 20.34
    assert scale.scales[0] == pytest.approx(np.std([40, 40, 60, 60, 0, 30]), rel=1e-3)
    assert scale.scales[1] == pytest.approx(0.0, abs=0.01)
    again = RewardScale([BODY, HOPPER], [0.5, 0.5], np.array([0, 1]))
    again.load_weights(scale.weights())
    np.testing.assert_array_equal(again.scales, scale.scales[::-1])


def test_noise_is_held_and_let_go():
    noise, rng = HeldNoise((200, 2), 16), np.random.default_rng(0)
    drawn = np.stack([noise.draw(rng).copy() for _ in range(64)])
    kept = (drawn[1:] == drawn[:-1]).all(-1)
    assert 0.4 < kept.mean() < 0.8  # of Zeta(2), cut at 16
    runs = [len(run) for run in "".join("x" if k else " " for k in kept[:, 0]).split()]
    assert max(runs) < 16
    noise.draw(rng)
    held = noise.draw(rng).copy()
    noise.release(np.ones(200, bool))
    assert not (noise.draw(rng) == held).any()


def test_idle_motors_rest_and_have_no_entropy():
    body = get_body("3d_humanoid_9_full")
    learner = made([body], method="monolithic+tn", learning_starts=0)
    obs = np.zeros((1, body.num_limbs * FEATURES), np.float32)
    actions, _ = learner.act(obs)
    assert (actions[0] != 0).tolist() == body.actuated.tolist()
    columns = torch.zeros(learner.networks.rows.layout.num_rows, learner.replay.num_columns)
    noise = torch.zeros(learner.networks.rows.layout.num_limbs, 3)
    still, log_prob = learner.networks._act(learner.networks.rows.observations(columns), noise)
    noise[~learner.networks.rows.layout.actuated] = 3.0
    same, same_prob = learner.networks._act(learner.networks.rows.observations(columns), noise)
    assert torch.equal(still, same)
    assert torch.equal(log_prob, same_prob)


def test_flat_critic_reads_limbs_in_their_positions_in_the_full_body():
    """What the same limb observes enters by the same weights, whichever body it is of."""
    bodies = (BODY, ASYMMETRIC)
    layout = layout_of(bodies, np.array([0, 1]))
    critic = FlatCritic(layout, 16)
    (part,) = critic.parts.values()
    assert list(critic.parts) == ["walker"]
    full = get_body("3d_walker_7_full")
    shared = set(BODY.limb_names) & set(ASYMMETRIC.limb_names)
    present = part._column_present.bool()
    assert (present[0] & present[1]).sum() > 22 * (len(shared) - 1)
    assert present.shape[1] == full.num_limbs * 22 - 3 - 12
    assert present.sum(1).tolist() == [22 * body.num_limbs - 3 - 12 for body in bodies]
    assert part._body.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_flat_critic_turns_with_the_target():
    learner = made([BODY], mirror=False)
    random_walk(learner, [BODY], 1, 20)
    columns = torch.from_numpy(learner.replay.sample(8, np.random.default_rng(0)).columns)
    batch = learner.networks.rows.batch(learner.networks.rows.observations(columns))
    turned = transform(batch, torch.from_numpy(rotation(1.0)).float())
    action = torch.rand(learner.networks.rows.layout.num_limbs, 3)
    difference = learner.networks.critic(batch, action) - learner.networks.critic(turned, action)
    assert difference.abs().max() < 1e-5


def test_each_family_has_a_flat_critic_of_its_own():
    learner = made([HOPPER, BODY, get_body("3d_hopper_5_full")])
    assert sorted(learner.networks.critic.parts) == ["hopper", "walker"]
    assert [len(p._body) for p in learner.networks.critic.parts.values()] == [4, 2]
    random_walk(learner, [HOPPER, BODY, get_body("3d_hopper_5_full")], 1, 30)
    columns = torch.from_numpy(learner.replay.sample(2, np.random.default_rng(0)).columns)
    obs = learner.networks.rows.observations(columns)
    action = torch.zeros(learner.networks.rows.layout.num_limbs, 3)
    before = learner.networks._values(learner.networks.critic, obs, action)
    with torch.no_grad():
        learner.networks.critic.parts["walker"].network.last_bias += 1.0
    change = (learner.networks._values(learner.networks.critic, obs, action) - before)[0]
    assert change.tolist() == pytest.approx([0, 0, 1, 1, 0, 0])


def test_a_mirrored_row_is_a_transition_of_the_image_in_physics():
    """The image of a stored transition: the image's state, moved by the image's action."""
    image = mirror_of(ASYMMETRIC).body
    assert image != ASYMMETRIC
    env, twin = (LocomotionVectorEnv(body, 1, threads=1) for body in (ASYMMETRIC, image))
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=1)
    for _ in range(5):
        obs = env.step(rng.uniform(-1, 1, env.action_mask.shape))[0]
    data = env.get_data(0)
    qpos, qvel = mirror_of(ASYMMETRIC).state(data.qpos.copy(), data.qvel.copy())
    target = env._stepper.locomotion.target[0] * (1, -1)
    seen, _ = twin.reset(options={"qpos": qpos, "qvel": qvel, "target": target})
    action = rng.uniform(-1, 1, ASYMMETRIC.action_dim).astype(np.float32) * ASYMMETRIC.actuated
    after = env.step(action[None])[0]

    rows = EqualRows([ASYMMETRIC], 2, mirror=True)
    assert [rows.bodies[i].name for i in rows.layout.body_index] == [ASYMMETRIC.name, image.name]
    columns = torch.from_numpy(np.tile(obs[:, varying_columns(ASYMMETRIC)], (2, 1)))
    np.testing.assert_allclose(rows.observations(columns)[1], seen[0], atol=1e-5)
    actuated = torch.from_numpy(action[ASYMMETRIC.actuated]).repeat(2, 1)
    limbs = rows.layout.pad(rows.actions(actuated))[1].numpy()
    followed = twin.step(limbs[image.hinge_mask][None])[0]
    columns = torch.from_numpy(np.tile(after[:, varying_columns(ASYMMETRIC)], (2, 1)))
    np.testing.assert_allclose(rows.observations(columns)[1], followed[0], atol=1e-4)


def test_images_among_the_bodies_count_as_they_do():
    """Arms are images of each other: rewards and entropy of an image are those of that body."""
    arms = [get_body("3d_humanoid_7_left_arm"), get_body("3d_humanoid_7_right_arm")]
    rows = EqualRows(arms, 4, mirror=True)
    assert len(rows.bodies) == 2
    assert rows.layout.body_index.tolist() == [0, 0, 1, 1, 1, 1, 0, 0]
    assert rows.unit_index.tolist() == [0, 0, 1, 1, 1, 1, 0, 0]
    alone = EqualRows([ASYMMETRIC], 2, mirror=True)
    assert alone.layout.body_index.tolist() == [0, 1]
    assert alone.unit_index.tolist() == [0, 0]


def test_a_network_of_one_body_learns_no_image():
    plan = Plan((ASYMMETRIC,), "monolithic+tn", True, 1_000, 4)
    assert SACConfig().resolved(plan).mirror is False
    whole = Plan((get_body("3d_walker_7_full"),), "monolithic+tn", True, 1_000, 4)
    assert SACConfig().resolved(whole).mirror is True


def test_the_config_records_what_families_say():
    bodies = (get_body("3d_humanoid_9_full"), get_body("3d_walker_7_full"))
    config = SACConfig().resolved(Plan(bodies, "set", False, 10_000, 4))
    assert config.horizon == (0.8, 4.0)
    assert config.n_step == (1, 5)
    assert config.gammas(bodies)[0] == pytest.approx(math.exp(-0.008 / 0.8))
    assert config.buffer_size == 10_008
    one = SACConfig(horizon=3.0).resolved(Plan(bodies, "set", False, 10_000, 4))
    assert one.horizon == (3.0, 3.0)
    with pytest.raises(ValueError, match="horizon must be above 0"):
        SACConfig(horizon=0.0)
    with pytest.raises(ValueError, match="n_step must lie between 1 and 64"):
        SACConfig(n_step=0)
    with pytest.raises(ValueError, match="3 values for 2 bodies"):
        SACConfig(n_step=(1, 2, 3)).resolved(Plan(bodies, "set", False, 10_000, 4))


def test_speed_is_chosen_measured_and_said(monkeypatch):
    cpu = torch.device("cpu")
    assert fastest_products(cpu) in ("bfloat16", "onednn", "float32")
    assert Speed.choose("auto", "float32", 1e6, cpu).compiled
    short = Speed.choose("auto", "float32", 100, cpu)
    assert not short.compiled
    assert "too few" in short.describe()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "want of a C++ compiler" in Speed.choose("yes", "float32", 1e6, cpu).describe()


def test_where_compiling_fails_updates_are_plain(monkeypatch):
    """Ctrl-C, which stops the compiler, too, has the update wait for the process that resumes."""
    calls = []

    def fail(*batch):
        calls.append(batch)
        raise RuntimeError("no such header\nand more")

    monkeypatch.setattr(torch, "compile", lambda plain, dynamic: fail)
    how = {"utd_ratio": 0.5, "learning_starts": 5}
    torch.manual_seed(0)
    plain = made([HOPPER], **how)
    torch.manual_seed(0)
    compiled = made([HOPPER], **how | {"compile": "yes"})
    compiled.due = 1.0
    compiled.update(lambda report: None, NoClock(), lambda: True)
    assert (compiled.updates, compiled.due) == (0, 1.0)
    assert compiled.networks.speed.compiled
    compiled.due = 0.0
    with pytest.warns(UserWarning, match="can't be compiled here, .*: no such header$"):
        reports = random_walk(compiled, [HOPPER], 1, 40)
    assert len(calls) == 2
    assert reports == random_walk(plain, [HOPPER], 1, 40)
    assert compiled.state_dict()["networks"]["speed"]["why_plain"] == "compiling failed"


@pytest.mark.parametrize(
    ("bodies", "method", "config"),
    [
        ([ASYMMETRIC, HOPPER], "set", {}),
        ([HOPPER], "monolithic+tn", {}),
        ([HOPPER, BODY], "set", {"critic": "method"}),
    ],
)
def test_goes_back_to_a_state_to_the_bit(bodies, method, config, tmp_path):
    how = {"utd_ratio": 0.5, "learning_starts": 20} | config
    one = made(bodies, method, folder=tmp_path, **how)
    random_walk(one, bodies, 1, 40)
    weights, state = one.weights(), one.state_dict()
    one.flush()
    first = random_walk(one, bodies, 1, 40, seed=1)
    torch.manual_seed(9)
    two = made(bodies, method, folder=tmp_path, **how)
    two.load_state_dict(weights, state)
    assert random_walk(two, bodies, 1, 40, seed=1) == first
    assert first
    for name, value in one.weights().items():
        assert torch.equal(value, two.weights()[name]), name


def test_starts_from_a_policy_alone():
    one = made([HOPPER], learning_starts=10, utd_ratio=0.5)
    random_walk(one, [HOPPER], 1, 40)
    policy = {n: w for n, w in one.weights().items() if n.startswith(("actor.", "normalizer."))}
    torch.manual_seed(3)
    two = made([HOPPER], learning_starts=10)
    assert two.load_weights(policy) == "critic"
    obs = np.zeros((1, HOPPER.num_limbs * FEATURES), np.float32)
    batch = one.networks.actor.envs.batch(torch.from_numpy(obs))
    assert torch.equal(
        one.networks.actor.network.mean(batch), two.networks.actor.network.mean(batch)
    )
    assert two.steps == 0
    assert not two.acts_randomly


def states(rng, count):
    """(count, limbs * 41): a body at random angles in [-1, 1], axes as the world's."""
    found = np.zeros((count, BODY.num_limbs, FEATURES), np.float32)
    found[..., GRAVITY], found[..., TARGET] = GRAVITY_DIRECTION, (1.0, 0.0, 0.0)
    found[:, 1:, 15:24] = np.eye(3).ravel()
    found[:, 1:, ANGLES] = rng.uniform(-1, 1, found[:, 1:, ANGLES].shape)
    return found.reshape(count, -1)


def test_solves_a_toy():
    """Episodes of one step: each hinge should act as the half of its angle."""
    rng, envs = np.random.default_rng(0), 8
    learner = make_learner(
        "sac",
        [BODY],
        method="monolithic+tn",
        network=MonolithicConfig(hidden=(64, 64), columns="varying", layer_norm=True),
        envs=envs,
        **PLAIN | {"batch_size": 64, "learning_rate": 3e-3, "mirror": False, "n_step": 1},
        learning_starts=400,
        utd_ratio=0.125,
    )

    def distance(observed, actions):
        angles = observed.reshape(len(observed), -1, FEATURES)[:, 1:, ANGLES]
        wanted = 0.5 * angles.reshape(len(observed), -1)
        return (((actions - wanted) ** 2) * BODY.actuated).mean(axis=-1)

    fresh = states(rng, envs * 30)

    def error():
        batch = LimbBatch.from_flat(torch.from_numpy(fresh), BODY)
        with torch.no_grad():
            limbs = batch.layout.pad(learner.networks.actor.network.mean(batch)).numpy()
        return distance(fresh, limbs[:, BODY.hinge_mask]).mean()

    at_start, done = error(), np.ones(envs, bool)
    obs = states(rng, envs)
    for _ in range(500):
        actions, _ = learner.act(obs)
        after = states(rng, envs)
        rewards = -distance(obs, actions).astype(float)
        learner.store(Step(obs, actions, rewards, after, obs, done, done))
        learner.update(lambda report: None, NoClock(), lambda: False)
        obs = after
    assert error() < 0.01 < at_start


def test_critics_that_began_anew_learn_before_an_actor_that_can_walk_changes():
    bodies = [HOPPER]
    how = {"learning_starts": 8, "utd_ratio": 1.0, "critic_warmup": 6}
    source = made(bodies, "monolithic+tn", **how)
    policy = {n: v for n, v in source.weights().items() if not n.startswith(("critic", "reward"))}
    learner = made(bodies, "monolithic+tn", **how)
    assert learner.load_weights(policy) == "critic"
    start = actor_of(learner)
    alpha = learner.networks.log_alpha.exp()
    assert alpha.item() == pytest.approx(5e-4)

    reports = random_walk(learner, bodies, 1, 13)
    assert 0 < learner.updates <= 6
    assert all(torch.equal(value, start[name]) for name, value in actor_of(learner).items())
    assert all("actor_loss" not in report for report in reports)
    again = made(bodies, "monolithic+tn", **how)
    networks = {n: v for n, v in learner.weights().items() if not n.startswith("reward")}
    again.networks.load_state_dict(networks, learner.state_dict()["networks"])
    assert again.networks.actor_waits == 6
    random_walk(learner, bodies, 1, 5)
    assert learner.updates > 8
    assert any(not torch.equal(value, start[name]) for name, value in actor_of(learner).items())

    # Whose critics are known waits for nothing.
    assert made(bodies, "monolithic+tn", **how).networks.actor_waits == 0
    known = made(bodies, "monolithic+tn", **how)
    assert known.load_weights(source.weights()) == ""
    assert known.networks.actor_waits == 0
    assert known.networks.log_alpha.exp().item() == pytest.approx(0.01)


def actor_of(learner):
    """Weights that the gradient changes."""
    return {n: v for n, v in learner.weights().items() if n.startswith("actor") and ".layers." in n}
