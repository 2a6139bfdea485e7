"""PPO that learns from half of what was lived through as if in a mirror."""

from contextlib import closing

import numpy as np
import pytest
import torch

from sgrl.algorithms.ppo import Ppo
from sgrl.algorithms.ppo_config import PpoConfig
from sgrl.algorithms.rollout import Rollout, Step
from sgrl.envs.observation import AXES, FEATURES, TARGET, mirrored
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.batch import LimbBatch
from sgrl.models.set import SetConfig
from sgrl.morphology import get_body, mirror_of, resolve_bodies

from .test_ppo import random_rollout

BODIES = SIDED, EVEN = tuple(
    get_body(name) for name in ("3d_humanoid_8_left_knee", "3d_hopper_5_full")
)
SMALL = SetConfig(layers=1, embedding=16, hidden=16, matrix_hidden=16)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def make(bodies, **config):
    return Ppo("set", "fast", bodies, PpoConfig(mirror=0.3, **config), network=SMALL)


def test_half_of_every_body_is_seen_in_the_mirror_with_the_same_worth():
    ppo = make(BODIES, epochs=2, batch=24)
    rollout, body_index = random_rollout(ppo, copies=3)
    weights = ppo.weights()
    batches = list(ppo.batches(rollout, body_index, np.random.default_rng(0)))
    assert len(batches) == 4
    assert len({id(batch.rows.layout) for batch in batches}) == 1
    done = rollout.actions.reshape(-1, rollout.actions.shape[-1])
    observed = rollout.observations[:-1].reshape(len(done), -1)
    plain = Ppo("set", "fast", BODIES, PpoConfig(epochs=1, batch=1000), network=SMALL)
    plain.load(weights)
    (whole,) = plain.batches(rollout, body_index, np.random.default_rng(0))
    order = [int(np.flatnonzero((done == a).all(axis=1))[0]) for a in whole.actions.numpy()]
    for batch in batches:
        bodies = batch.rows.layout.bodies
        names = [bodies[i].name for i in batch.rows.layout.row_body]
        assert names[:12] == [SIDED.name] * 6 + [f"{SIDED.name}_mirrored"] * 6
        assert names[12:] == [EVEN.name] * 12
        images = batch.images
        assert images.rows.tolist() == [*range(6, 12), *range(18, 24)]
        assert images.lived.tolist() == [*range(6), *range(12, 18)]
        for image, lived in zip(images.rows.tolist(), images.lived.tolist(), strict=True):
            body = (SIDED, EVEN)[lived >= 12]
            mirror, motors = mirror_of(body), body.action_dim
            action = batch.actions[lived].numpy()
            (row,) = np.flatnonzero((done == action).all(axis=1))
            expected = mirror.actions(action[:motors])
            np.testing.assert_array_equal(batch.actions[image, :motors], expected)
            assert not batch.actions[image, motors:].any()
            means = mirror.actions(batch.means[lived, :motors].numpy())
            np.testing.assert_array_equal(batch.means[image, :motors], means)
            seen = observed[row, : body.num_limbs * FEATURES]
            for place, is_of, what in (
                (lived, body, seen),
                (image, mirror.body, mirrored(seen, mirror)),
            ):
                alone = LimbBatch.from_flat(torch.from_numpy(what[None].copy()), is_of)
                mine = batch.rows.select(np.array([place]))
                torch.testing.assert_close(mine.vectors, alone.vectors)
                torch.testing.assert_close(mine.scalars, alone.scalars)
                worth = whole.advantages[order.index(row)]
                torch.testing.assert_close(batch.advantages[place], worth)


def test_returns_of_an_image_that_is_trained_on_are_in_its_own_units():
    left, right = bodies = resolve_bodies(("3d_humanoid_7_left_arm", "3d_humanoid_7_right_arm"))
    ppo = make(bodies, epochs=1, batch=1000)
    rollout, body_index = random_rollout(ppo, copies=2)
    rollout.rewards[:, body_index == 1] += 100.0
    (batch,) = ppo.batches(rollout, body_index, np.random.default_rng(0))
    assert batch.rows.layout.bodies == (left, right), "the image of each is the other"
    mean, spread = (torch.from_numpy(x) for x in (ppo.returns.mean, ppo.returns.spread))
    body = torch.from_numpy(np.asarray(batch.rows.layout.row_body))
    earned = mean[body] + spread[body] * batch.returns
    images = batch.images
    torch.testing.assert_close(earned[images.rows], earned[images.lived], rtol=1e-4, atol=1e-2)
    assert (body[images.rows] != body[images.lived]).all()
    assert mean[1] > mean[0] + 50.0, "else their units would not matter"


def test_a_policy_that_is_its_own_image_is_not_pulled():
    """And another one is, towards the image of what it does where it was."""
    ppo = make((EVEN,), epochs=1, batch=1000)
    rollout, body_index = random_rollout(ppo, copies=3)
    (batch,) = ppo.batches(rollout, body_index, np.random.default_rng(0))
    images = batch.images
    means = torch.randn_like(batch.actions)
    for image, lived in zip(images.rows.tolist(), images.lived.tolist(), strict=True):
        means[image] = torch.from_numpy(mirror_of(EVEN).actions(means[lived].numpy()))
    means.requires_grad_()
    assert ppo._unlikeness(batch, means).item() == 0.0
    (ppo._unlikeness(batch, means + torch.randn_like(means))).backward()
    assert means.grad[images.rows].abs().min() > 0
    assert not means.grad[images.lived].any()


def test_what_a_body_learns_its_image_knows():
    """The knee follows the side on which the target lies, which the mirror swaps."""
    with closing(LocomotionVectorEnv((SIDED,), 256, threads=1)) as env:
        seen, _ = env.reset(seed=0)
    limbs = seen.reshape(len(seen), -1, FEATURES)
    wanted = 0.5 * (limbs[:, 2, TARGET] * limbs[:, 2, AXES][:, 3:6]).sum(axis=1)
    knee = 4  # the y hinge of the right shin

    def error_of_the_image(mirror: float) -> float:
        torch.manual_seed(1)
        config = PpoConfig(rollout=1, epochs=4, batch=128, learning_rate=1e-3, mirror=mirror)
        ppo = Ppo("set", "fast", (SIDED,), config)
        body_index, rng = np.zeros(len(seen), np.int64), np.random.default_rng(0)
        rollout = Rollout(1, len(seen), seen.shape[1], SIDED.action_dim)
        for _ in range(12):
            actions, means = ppo.act(seen, body_index, rng)
            rewards = -np.square(actions[:, knee] - wanted).astype(float)
            ended = np.ones(len(seen), bool)
            rollout.add(Step(seen, actions, rewards, seen, seen, ended, ended, means))
            for batch in ppo.batches(rollout, body_index, rng):
                ppo.update(batch)
            rollout.clear()
        image = mirror_of(SIDED)
        batch = LimbBatch.from_flat(torch.from_numpy(mirrored(seen, image)), image.body)
        with torch.no_grad():
            found = batch.layout.actions_to_rows(ppo.policy.actor(batch)).numpy()
        back = mirror_of(image.body).actions(found)
        return float(np.square(back[:, knee] - wanted).mean())

    at_rest = float(np.square(wanted).mean())
    assert error_of_the_image(mirror=0.3) < 0.3 * at_rest
    assert error_of_the_image(mirror=0.0) > at_rest
