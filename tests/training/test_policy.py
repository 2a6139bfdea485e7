"""A policy read back from a run: the actor that was saved, for any body, or a clear message."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sgrl
from sgrl.models.batch import LimbBatch
from sgrl.models.methods import METHODS
from sgrl.models.swat import SWATConfig
from sgrl.morphology import get_body
from sgrl.training.checkpoint import (
    WEIGHTS,
    CorruptCheckpointError,
    checkpoint_folder,
)
from sgrl.training.policy import TrainedPolicy, load_policy
from sgrl.training.run import Run
from sgrl.training.settings import plain
from tests.training.edit import edit_settings

from .untrained import HOPPER, TINY, WALKER, untrained_run


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def observations(body: str, rows: int = 5) -> np.ndarray:
    env = sgrl.make_vec(body, rows)
    return env.reset(seed=0)[0]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TrainedPolicy:
    run, _ = untrained_run(tmp_path_factory.mktemp("runs"))
    return load_policy(run.path)


@pytest.mark.parametrize("method", ["set", "swat+hn", "monolithic"])
def test_it_acts_as_the_actor_that_was_saved(tmp_path: Path, method: str) -> None:
    run, learners = untrained_run(tmp_path, steps=(100, 20_000), method=method)
    obs = observations(HOPPER)
    for steps, loaded in ((20_000, load_policy(run.path)), (100, load_policy(run.path, 100))):
        learner = learners[loaded.checkpoint != 100]
        assert loaded.checkpoint == steps
        expected = learner.policy_actions(obs, np.zeros(5, np.intp))
        assert np.allclose(loaded.act(obs, HOPPER), expected, atol=1e-6)
        assert np.allclose(loaded.act(obs, HOPPER), expected, atol=1e-6), "twice the same"


def test_a_preset_that_was_changed_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = untrained_run(tmp_path, method="swat")
    obs = observations(HOPPER)
    expected = load_policy(run.path).act(obs, HOPPER)
    other = replace(METHODS["swat"], fast=SWATConfig(layers=1, embedding=16))
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "swat", other)
        assert np.array_equal(load_policy(run.path).act(obs, HOPPER), expected)
    # Before, runs did not record what their preset stood for.
    edit_settings(run, network=None)
    assert np.array_equal(load_policy(run.path).act(obs, HOPPER), expected)


def test_it_knows_where_it_comes_from(policy: TrainedPolicy) -> None:
    assert policy.method == "set"
    assert policy.bodies == (get_body(HOPPER), get_body(WALKER))
    assert policy.settings.network == plain(TINY)
    assert policy.checkpoint == 100
    assert policy.run.name == "run"
    assert repr(policy) == f"<set after 100 steps of {policy.run}>"


def test_one_or_a_batch_by_name_or_value(policy: TrainedPolicy) -> None:
    obs = observations(WALKER)
    rows = policy.act(obs, WALKER)
    assert rows.shape == (5, 3)
    assert rows.dtype == np.float32
    assert np.abs(rows).max() <= 1
    assert np.array_equal(policy.act(obs, get_body(WALKER)), rows)
    assert np.array_equal(policy.act(obs.astype(np.float64), WALKER), rows)
    assert np.array_equal(policy.act([[0] * 82], WALKER), policy.act(np.zeros((1, 82)), WALKER))
    one = policy.act(obs[2], WALKER)
    assert one.shape == (3,)
    np.testing.assert_allclose(one, rows[2], atol=1e-6)
    assert policy.act(obs[:0], WALKER).shape == (0, 3)
    assert policy.act(obs[::2], WALKER).shape == (3, 3), "rows that are not contiguous"


def test_bodies_that_it_has_not_seen(policy: TrainedPolicy) -> None:
    tripod = get_body("3d_cheetah_14_full").cut("left_fthigh", "upper_tail", name="tripod")
    env = sgrl.make_env(tripod)
    obs, _ = env.reset(seed=0)
    action = policy.act(obs, tripod)
    assert action.shape == env.action_space.shape
    env.step(action)


def test_the_callers_arrays_stay_as_they_are(policy: TrainedPolicy) -> None:
    obs = observations(HOPPER)
    before = obs.copy()
    first = policy.act(obs, HOPPER)
    kept = first.copy()
    policy.act(obs + 1, HOPPER)
    assert np.array_equal(obs, before)
    assert np.array_equal(first, kept)


def test_training_goes_on_in_the_same_process(policy: TrainedPolicy, tmp_path: Path) -> None:
    """What acting leaves in the layouts' cache serves gradients too."""
    body = get_body("3d_walker_3_left_leg_right_foot")
    obs = observations(body.name, 7)
    policy.act(obs, body)
    _, (learner,) = untrained_run(tmp_path)
    batch = LimbBatch.from_flat(torch.from_numpy(obs), body)
    learner.actor(batch).sum().backward()


@pytest.mark.parametrize(
    ("obs", "words"),
    [
        (np.zeros(205, np.float32), "got (205,), which would be 5 limbs"),
        (np.zeros((4, 100), np.float32), "has 3 limbs and observes (123,) or (rows, 123); got (4,"),
        (np.zeros((2, 2, 123), np.float32), "got (2, 2, 123)"),
        (np.float32(1.0), "got ()"),
        (np.full(123, np.nan, np.float32), "finite numbers, not NaN"),
        (np.array(["x"] * 123), "finite numbers"),
    ],
)
def test_a_wrong_observation_is_explained(
    policy: TrainedPolicy, obs: np.ndarray, words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        policy.act(obs, HOPPER)


def test_an_unknown_body_is_explained(policy: TrainedPolicy) -> None:
    with pytest.raises(ValueError, match="did you mean 3d_hopper_3_shin"):
        policy.act(np.zeros(123, np.float32), "3d_hopper_3_shi")


def test_monolithic_refuses_other_bodies(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path, method="monolithic")
    loaded = load_policy(run.path)
    with pytest.raises(ValueError, match=f"made for {HOPPER} and can't take {WALKER}"):
        loaded.act(observations(WALKER), WALKER)


def test_a_missing_run_or_checkpoint(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path, steps=(100, 200))
    with pytest.raises(FileNotFoundError, match="there is no run"):
        load_policy(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="no checkpoint 150; there are 100, 200"):
        load_policy(run.path, 150)
    empty, _ = untrained_run(tmp_path / "more", steps=())
    with pytest.raises(FileNotFoundError, match="no checkpoint yet"):
        load_policy(empty.path)


def test_a_device_that_is_not_there(policy: TrainedPolicy) -> None:
    with pytest.raises(ValueError, match="device 'nowhere' cannot be used"):
        load_policy(policy.run, device="nowhere")


def test_a_corrupt_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path, steps=(100, 200))
    truncate(run, 200)
    with pytest.warns(UserWarning, match="truncated.*trying the checkpoint before"):
        assert load_policy(run.path).checkpoint == 100
    with pytest.raises(CorruptCheckpointError, match="truncated"):
        load_policy(run.path, 200)
    truncate(run, 100)
    with (
        pytest.warns(UserWarning, match="trying the checkpoint before"),
        pytest.raises(CorruptCheckpointError, match="no checkpoint of"),
    ):
        load_policy(run.path)


def truncate(run: Run, steps: int) -> None:
    file = checkpoint_folder(run.checkpoints, steps) / WEIGHTS
    file.write_bytes(file.read_bytes()[:-10])


def test_weights_of_another_size_are_refused(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path)
    sizes = json.loads(run.settings_file.read_text())["network"]
    edit_settings(run, network=sizes | {"hidden": 20})
    with pytest.raises(ValueError, match="of another size"):
        load_policy(run.path)
