"""`+mirror`: networks that do for the image of a body the image of what they do for the body."""

import numpy as np
import pytest
import torch

from sgrl.algorithms.config import Plan
from sgrl.algorithms.sac_config import SACConfig
from sgrl.envs.observation import mirrored
from sgrl.envs.single import LocomotionEnv
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import (
    get_method,
    make_actor,
    make_critic,
    make_gaussian_actor,
)
from sgrl.models.mirrored import mirror_actions, mirror_batch, mirror_error, unmirror_actions
from sgrl.models.normalizer import reads_raw
from sgrl.models.states import rollout_batch
from sgrl.morphology import get_body, mirror_of

WALKER = get_body("3d_walker_3_left_leg_right_foot")
"""Its image is another body."""
HUMANOID = get_body("3d_humanoid_9_full")
METHODS = ("set+mirror", "swat+mirror", "swat+tn+mirror", "smp+hn+mirror")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def batch():
    return rollout_batch((WALKER, HUMANOID, get_body("3d_hopper_3_shin")), 2)


def test_a_mirrored_batch_is_what_the_image_observes():
    env = LocomotionEnv(WALKER)
    obs, _ = env.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-1, 1, (5, WALKER.action_dim)):
        obs = env.step(action)[0]
    image = mirror_of(WALKER)
    seen = mirror_batch(LimbBatch.from_flat(torch.from_numpy(obs)[None], WALKER))
    flat = torch.from_numpy(mirrored(obs, image))[None]
    expected = LimbBatch.from_flat(flat, image.body)
    torch.testing.assert_close(seen.vectors, expected.vectors)
    torch.testing.assert_close(seen.scalars, expected.scalars)
    torch.testing.assert_close(seen.target, expected.target)
    assert seen.layout.bodies == (image.body,)


def test_the_image_of_an_image_is_the_body(batch):
    twice = mirror_batch(mirror_batch(batch))
    torch.testing.assert_close(twice.vectors, batch.vectors)
    torch.testing.assert_close(twice.scalars, batch.scalars)
    actions = torch.rand(batch.layout.num_limbs, 3)
    back = unmirror_actions(mirror_actions(actions, batch.layout), batch.layout)
    assert torch.equal(back, actions)


@pytest.mark.parametrize("method", METHODS)
def test_acts_for_the_image_as_the_image(method, batch):
    actor = make_gaussian_actor(method).double()
    with torch.no_grad():
        mean, log_std = actor(batch)
        image_mean, image_log_std = actor(mirror_batch(batch))
    image = batch.layout.image
    assert (image_mean - mirror_actions(mean, batch.layout)).abs().max() < 1e-9
    assert (image_log_std - log_std[image.sources]).abs().max() < 1e-9
    assert mean.abs().max() > 1e-3
    plain = make_gaussian_actor(method.removesuffix("+mirror")).double()
    with torch.no_grad():
        assert mirror_error(lambda one: plain(one)[0], batch) > 1e-3


def test_values_stay_as_they_are(batch):
    critic = make_critic("set+mirror").double()
    action = torch.rand(batch.layout.num_limbs, 3, dtype=torch.float64)
    with torch.no_grad():
        q = critic(batch, action)
        image_q = critic(mirror_batch(batch), mirror_actions(action, batch.layout))
    assert (image_q - q[batch.layout.image.sources]).abs().max() < 1e-9


@pytest.mark.parametrize("method", ["set+mirror", "swat+tn+mirror"])
def test_fifty_steps_of_physics(method):
    """A body and its image, each with its own observations, stay images of each other."""
    actor = make_actor(method).double()
    mirror = mirror_of(WALKER)
    env, twin = LocomotionEnv(WALKER), LocomotionEnv(mirror.body)
    first, _ = env.reset(seed=3)
    qpos, qvel = mirror.state(env.data.qpos.copy(), env.data.qvel.copy())
    options = {"qpos": qpos, "qvel": qvel, "target": env.target * (1, -1)}
    second, _ = twin.reset(options=options)
    for _ in range(50):
        with torch.no_grad():
            actions = []
            for obs, body in ((first, WALKER), (second, mirror.body)):
                batch = LimbBatch.from_flat(torch.from_numpy(obs)[None].double(), body)
                actions.append(batch.layout.actions_to_rows(actor(batch))[0].numpy())
        np.testing.assert_allclose(actions[1], mirror.actions(actions[0]), atol=1e-3)
        first, second = env.step(actions[0])[0], twin.step(actions[1])[0]
    expected, _ = mirror.state(env.data.qpos, env.data.qvel)
    np.testing.assert_allclose(twin.data.qpos, expected, atol=1e-3)


def test_it_is_the_mean_of_network_and_image(batch):
    actor = make_actor("set+mirror").double()
    inner = actor.network.network
    with torch.no_grad():
        here = inner(batch)
        image = unmirror_actions(inner(mirror_batch(batch)), batch.layout)
        mean = (0.5 * (here + image)).masked_fill(batch.layout.is_torso[:, None], 0.0)
        torch.testing.assert_close(actor(batch), torch.tanh(mean))


def test_reads_observations_as_they_are():
    assert reads_raw(make_actor("set+mirror"))
    assert not reads_raw(make_actor("set"))


def test_a_network_of_one_body_needs_a_body_that_is_its_own_image():
    get_method("monolithic+tn+mirror")
    make_actor("monolithic+tn+mirror", bodies=(HUMANOID,))
    with pytest.raises(ValueError, match="whose mirror image is another body"):
        make_actor("monolithic+tn+mirror", bodies=(WALKER,))
    with pytest.raises(ValueError, match="unknown method"):
        get_method("ste+mirror")


def test_mirrored_rows_would_be_redundant():
    plan = Plan((HUMANOID,), "set+mirror", False, 1_000, 4)
    assert SACConfig().resolved(plan).mirror is False
