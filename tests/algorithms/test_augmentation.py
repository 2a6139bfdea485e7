"""PPO with mirrored samples: half of every batch are images of collected transitions."""

from contextlib import closing

import numpy as np
import pytest
import torch

from sgrl.algorithms.learner import Step
from sgrl.envs.observation import AXES, FEATURES, TARGET, mirrored
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.batch import LimbBatch
from sgrl.models.set import SETConfig
from sgrl.morphology import get_body, mirror_of, resolve_bodies

from .test_ppo import collect, make_ppo

BODIES = SIDED, EVEN = tuple(
    get_body(name) for name in ("3d_humanoid_8_left_knee", "3d_hopper_5_full")
)
SMALL = SETConfig(layers=1, embedding=16, hidden=16, matrix_hidden=16)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def make(bodies, envs=1, **config):
    return make_ppo(bodies, SMALL, envs=envs, **({"mirror_loss_coef": 0.3} | config))


def test_half_of_every_body_is_mirrored_with_the_same_advantages():
    ppo = make(BODIES, envs=3, n_epochs=2, batch_size=24)
    rollout = collect(ppo)
    weights = ppo.weights()
    batches = list(ppo.batches())
    assert len(batches) == 4
    assert len({id(batch.rows.layout) for batch in batches}) == 1
    done = rollout.actions.reshape(-1, rollout.actions.shape[-1])
    observed = rollout.obs[:-1].reshape(len(done), -1)
    plain = make(BODIES, envs=3, n_epochs=1, batch_size=1000, mirror_loss_coef=0.0)
    plain.load_weights(weights)
    plain.rollout = rollout
    (whole,) = plain.batches()
    order = [int(np.flatnonzero((done == a).all(axis=1))[0]) for a in whole.actions.numpy()]
    for batch in batches:
        bodies = batch.rows.layout.bodies
        names = [bodies[i].name for i in batch.rows.layout.body_index]
        assert names[:12] == [SIDED.name] * 6 + [f"{SIDED.name}_mirrored"] * 6
        assert names[12:] == [EVEN.name] * 12
        images = batch.mirrored
        assert images.rows.tolist() == [*range(6, 12), *range(18, 24)]
        assert images.originals.tolist() == [*range(6), *range(12, 18)]
        for image, original in zip(images.rows.tolist(), images.originals.tolist(), strict=True):
            body = (SIDED, EVEN)[original >= 12]
            mirror, motors = mirror_of(body), body.action_dim
            action = batch.actions[original].numpy()
            (row,) = np.flatnonzero((done == action).all(axis=1))
            expected = mirror.actions(action[:motors])
            np.testing.assert_array_equal(batch.actions[image, :motors], expected)
            assert not batch.actions[image, motors:].any()
            means = mirror.actions(batch.means[original, :motors].numpy())
            np.testing.assert_array_equal(batch.means[image, :motors], means)
            seen = observed[row, : body.num_limbs * FEATURES]
            for place, is_of, what in (
                (original, body, seen),
                (image, mirror.body, mirrored(seen, mirror)),
            ):
                alone = LimbBatch.from_flat(torch.from_numpy(what[None].copy()), is_of)
                mine = batch.rows.select(np.array([place]))
                torch.testing.assert_close(mine.vectors, alone.vectors)
                torch.testing.assert_close(mine.scalars, alone.scalars)
                advantage = whole.advantages[order.index(row)]
                torch.testing.assert_close(batch.advantages[place], advantage)


def test_returns_of_an_image_that_is_trained_on_are_in_its_own_units():
    left, right = bodies = resolve_bodies(("3d_humanoid_7_left_arm", "3d_humanoid_7_right_arm"))
    ppo = make(bodies, envs=2, n_epochs=1, batch_size=1000)
    collect(ppo).rewards[:, ppo.layout.body_index == 1] += 100.0
    (batch,) = ppo.batches()
    assert batch.rows.layout.bodies == (left, right), "the image of each is the other"
    normalizer = ppo.return_normalizer
    mean, std = torch.from_numpy(normalizer.mean), torch.from_numpy(normalizer.std)
    body = torch.from_numpy(np.asarray(batch.rows.layout.body_index))
    earned = mean[body] + std[body] * batch.returns
    images = batch.mirrored
    torch.testing.assert_close(earned[images.rows], earned[images.originals], rtol=1e-4, atol=1e-2)
    assert (body[images.rows] != body[images.originals]).all()
    assert mean[1] > mean[0] + 50.0, "else their units would not matter"


def test_a_policy_that_is_its_own_image_has_no_mirror_loss():
    """Another one has, towards the image of what it does in the original."""
    ppo = make((EVEN,), envs=3, n_epochs=1, batch_size=1000)
    collect(ppo)
    (batch,) = ppo.batches()
    images = batch.mirrored
    means = torch.randn_like(batch.actions)
    for image, original in zip(images.rows.tolist(), images.originals.tolist(), strict=True):
        means[image] = torch.from_numpy(mirror_of(EVEN).actions(means[original].numpy()))
    means.requires_grad_()
    assert ppo.losses.mirror_loss(batch, means).item() == 0.0
    (ppo.losses.mirror_loss(batch, means + torch.randn_like(means))).backward()
    assert means.grad[images.rows].abs().min() > 0
    assert not means.grad[images.originals].any()


def test_what_a_body_learns_its_image_knows():
    """The knee follows the side on which the target lies, which the mirror swaps."""
    with closing(LocomotionVectorEnv((SIDED,), 256, threads=1)) as env:
        obs, _ = env.reset(seed=0)
    limbs = obs.reshape(len(obs), -1, FEATURES)
    wanted = 0.5 * (limbs[:, 2, TARGET] * limbs[:, 2, AXES][:, 3:6]).sum(axis=1)
    knee = 4  # the y hinge of the right shin

    def error_of_the_image(mirror: float) -> float:
        torch.manual_seed(1)
        ppo = make_ppo(
            (SIDED,),
            None,
            envs=len(obs),
            n_steps=1,
            n_epochs=4,
            batch_size=128,
            learning_rate=1e-3,
            mirror_loss_coef=mirror,
        )
        for _ in range(12):
            actions, extras = ppo.act(obs)
            rewards = -np.square(actions[:, knee] - wanted).astype(float)
            ended = np.ones(len(obs), bool)
            ppo.store(Step(obs, actions, rewards, obs, obs, ended, ended, extras))
            for batch in ppo.batches():
                ppo.gradient_step(batch)
            ppo.rollout.clear()
        image = mirror_of(SIDED)
        batch = LimbBatch.from_flat(torch.from_numpy(mirrored(obs, image)), image.body)
        with torch.no_grad():
            found = batch.layout.actions_to_rows(ppo.policy.actor(batch)).numpy()
        back = mirror_of(image.body).actions(found)
        return float(np.square(back[:, knee] - wanted).mean())

    at_rest = float(np.square(wanted).mean())
    assert error_of_the_image(mirror=0.3) < 0.3 * at_rest
    assert error_of_the_image(mirror=0.0) > at_rest
