"""Distillation: what is labelled, who acts, what is learned, and its parts by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sgrl.algorithms.config import Plan
from sgrl.algorithms.distil import Distil
from sgrl.algorithms.distil_config import DistilConfig
from sgrl.algorithms.learner import Setup, SourcePolicy, Step
from sgrl.algorithms.teacher import LabelBuffer, Teacher
from sgrl.algorithms.weights import weights_of
from sgrl.envs.vector import LocomotionVectorEnv
from sgrl.models.methods import make_actor, make_gaussian_actor
from sgrl.models.set import SETConfig
from sgrl.morphology import get_body, mirror_of

from .made import NoClock, layout_for

HOPPER = get_body("3d_hopper_3_shin")
WALKER = get_body("3d_walker_3_left_leg_right_foot")
BODIES = (HOPPER, WALKER)
SMALL = SETConfig(layers=1, embedding=16, hidden=16, matrix_hidden=16)
ENVS = 2


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def source(*bodies: Any, gaussian: bool = True, seed: int = 1) -> SourcePolicy:
    """A policy that nobody trained, far from doing nothing."""
    torch.manual_seed(seed)
    make = make_gaussian_actor if gaussian else make_actor
    actor = make("set", "fast", bodies=bodies, config=SMALL)
    with torch.no_grad():
        for weight in actor.parameters():
            weight.mul_(1.5)
    return SourcePolicy("teacher", "set", "fast", SMALL, bodies, weights_of({"actor": actor}))


def student(*sources: SourcePolicy, steps: int = 1_000, seed: int = 0, **config: Any) -> Distil:
    settings = DistilConfig(
        **{"teachers": ("run",), "batch_size": 16, "learning_starts": 0, "compile": "no"} | config
    ).resolved(Plan(BODIES, "set", False, steps, ENVS))
    layout = layout_for(BODIES, ENVS)
    setup = Setup(BODIES, "set", "fast", SMALL, layout, seed, "cpu", steps, sources=sources)
    return Distil(replace(settings, products="float32"), setup)


def train(learner: Distil, steps: int, env: Any = None, obs: Any = None) -> tuple[Any, Any, Any]:
    """Steps of real environments; the environments, what they showed last, what was reported."""
    if env is None:
        env = LocomotionVectorEnv(BODIES, ENVS, threads=1)
        obs, _ = env.reset(seed=3)
    reports: list[Any] = []
    for _ in range(steps):
        actions, extras = learner.act(obs)
        after, rewards, terminated, truncated, infos = env.step(actions)
        done = terminated | truncated
        final = np.where(done[:, None], infos["final_obs"], after) if done.any() else after
        learner.store(Step(obs, actions, rewards, after, final, terminated, done, extras))
        learner.update(reports.append, NoClock(), lambda: False)
        obs = after
    return env, obs, reports


def test_a_teacher_says_what_its_actor_would_do_before_tanh() -> None:
    obs = LocomotionVectorEnv((WALKER,), 3, threads=1).reset(seed=0)[0]
    for gaussian in (True, False):
        given = source(WALKER, gaussian=gaussian)
        teacher = Teacher(given, 2.5, torch.device("cpu"))
        mean, log_std = teacher.label(obs, WALKER)
        assert mean.shape == log_std.shape == (3, WALKER.action_dim)
        assert np.abs(mean).max() <= 2.5
        assert teacher.has_std is gaussian
        assert bool(log_std.std() > 0) is gaussian
        assert np.abs(mean[:, WALKER.actuated]).max() > 0.01
    narrow, _ = Teacher(given, 0.001, torch.device("cpu")).label(obs, WALKER)
    assert np.abs(narrow).max() == np.float32(0.001)


def test_each_body_has_the_first_teacher_that_was_trained_on_it() -> None:
    both, walker = source(HOPPER, WALKER), source(WALKER, seed=2)
    learner = student(walker, both)
    assert learner.teachers[1].bodies == {WALKER.name}
    assert learner.teachers[0].bodies == {HOPPER.name, WALKER.name}
    with pytest.raises(ValueError, match=f"no teacher was trained on {HOPPER.name}"):
        student(walker)


def test_teachers_of_another_size_are_refused() -> None:
    wrong = replace(source(*BODIES), network=SETConfig(layers=2, embedding=8, hidden=8))
    with pytest.raises(ValueError, match="teacher can't teach"):
        student(wrong)


def test_without_teachers_there_is_nothing_to_learn() -> None:
    with pytest.raises(ValueError, match="sgrl distil RUN RUN"):
        DistilConfig().resolved(Plan(BODIES, "set", False, 10, 1))


def test_the_student_takes_over() -> None:
    learner = student(source(*BODIES), steps=400, alone_after=0.5, handover_steps=1, utd_ratio=0)
    shares = []
    env, obs, _ = train(learner, 1)
    assert learner.teacher_acts.all()
    for _ in range(60):
        env, obs, _ = train(learner, 1, env, obs)
        shares.append(1.0 - learner.teacher_acts.mean())
    assert 0.1 < np.mean(shares[:40]) < 0.7
    assert np.mean(shares[52:]) == 1.0
    assert learner.student_share == 1.0


def test_teachers_act_as_they_label_where_there_is_no_noise() -> None:
    learner = student(source(*BODIES), utd_ratio=0)
    obs = LocomotionVectorEnv(BODIES, ENVS, threads=1).reset(seed=0)[0]
    actions, extras = learner.act(obs)
    actuated = learner.student.envs.actuated
    np.testing.assert_array_equal(actions[0], np.tanh(extras["labels"][0]) * actuated[0])
    assert np.abs(actions[1] - np.tanh(extras["labels"][1]) * actuated[1]).max() > 0.01
    assert not actions[actuated == 0].any()


def test_it_learns_what_the_teacher_does() -> None:
    # A random teacher does not do the image of what it does in the image's state.
    learner = student(
        source(*BODIES),
        steps=1_200,
        utd_ratio=0.5,
        learning_rate=3e-3,
        batch_size=64,
        mirror=False,
    )
    _, _, reports = train(learner, 300)
    losses = [report["imitation_loss"] for report in reports if "imitation_loss" in report]
    stds = [report["std_loss"] for report in reports if "std_loss" in report]
    assert np.mean(losses[-50:]) < 0.4 * np.mean(losses[:10])
    assert np.mean(stds[-50:]) < 0.4 * np.mean(stds[:10])


def test_std_is_left_alone_where_the_teacher_has_none() -> None:
    learner = student(source(*BODIES, gaussian=False), utd_ratio=0.5)
    _, _, reports = train(learner, 8)
    assert {report["std_loss"] for report in reports if "std_loss" in report} == {0.0}


def test_mirrored_rows_are_labelled_with_the_image_of_the_action() -> None:
    learner = student(source(WALKER, HOPPER), mirror=True)
    body, rows = BODIES.index(WALKER), learner.rows
    mirror = mirror_of(WALKER)
    motors = int(WALKER.actuated.sum())
    labels = torch.zeros(len(learner._body_of_row), rows.num_actuated)
    drawn = torch.arange(1.0, motors + 1)
    labels[learner._body_of_row == body, :motors] = drawn
    limbs = rows.actions(labels)
    # Rows are body after body, and of each the second half are images.
    found = limbs[-mirror.body.num_limbs :]
    wanted = np.zeros(WALKER.action_dim, np.float32)
    wanted[WALKER.actuated] = drawn.numpy()
    wanted = mirror.actions(wanted)
    hinges = mirror.body.by_limb(wanted)
    np.testing.assert_array_equal(found.numpy(), hinges)
    np.testing.assert_array_equal(rows.magnitudes(labels).abs(), limbs.abs())


def test_bodies_that_lag_get_more_rows() -> None:
    learner = student(source(*BODIES), steps=100, rebalances=4, batch_size=32)
    assert learner.counts.tolist() == [16, 16]
    learner.losses[:] = (1.0, 3.0)
    learner.steps = 21
    learner._rebalance()
    assert learner.counts.tolist() == [8, 24]
    learner.losses[:] = (3.0, 1.0)
    learner._rebalance()
    assert learner.counts.tolist() == [8, 24]  # not before its time


def test_it_goes_on_to_the_bit() -> None:
    whole, other = student(source(*BODIES)), student(source(*BODIES), seed=5)
    env, obs, _ = train(whole, 12)
    weights, state = whole.weights(), whole.state_dict()
    saved, shown = env.state_dict(), obs.copy()
    train(whole, 12, env, obs)
    for ring, theirs in zip(other.buffer._rings, whole.buffer._rings, strict=True):
        ring.records[:] = theirs.records
    env.load_state_dict(saved)
    other.load_state_dict(weights, state)
    train(other, 12, env, shown)
    assert whole.updates == other.updates > 0
    for name, value in whole.weights().items():
        assert torch.equal(value, other.weights()[name]), name


def test_where_compiling_fails_updates_are_plain(monkeypatch: Any) -> None:
    """Also after the bodies' rows are shared out anew; Ctrl-C, which stops the compiler, too, has
    the update wait for the process that resumes."""
    calls = []

    def fail(*batch: Any) -> None:
        calls.append(batch)
        raise RuntimeError("no such header\nand more")

    monkeypatch.setattr(torch, "compile", lambda plain, dynamic: fail)
    plain, compiled = (
        student(source(*BODIES), steps=40, utd_ratio=0.5, compile=how) for how in ("no", "yes")
    )
    compiled.load_weights(plain.weights())
    assert ", compiled updates" in compiled.describe()
    compiled.due = 1.0
    compiled.update(lambda report: None, NoClock(), iter([False, True]).__next__)
    assert (compiled.updates, compiled.due) == (0, 1.0)
    compiled.due = 0.0
    with pytest.warns(UserWarning, match="can't be compiled here, .*: no such header$"):
        _, _, reports = train(compiled, 10)
    assert len(calls) == 2
    assert reports == train(plain, 10)[2]
    assert compiled.rebalanced
    assert compiled.state_dict()["speed"]["why_plain"] == "compiling failed"


def test_labels_are_found_again_in_their_files(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    buffer = LabelBuffer(BODIES, 20, folder=tmp_path, slack=4)
    index = np.array([0, 1])
    width = WALKER.num_limbs * 41
    for _ in range(30):
        obs = rng.standard_normal((2, width)).astype(np.float32)
        labels = rng.standard_normal((2, 2, WALKER.action_dim)).astype(np.float32)
        buffer.add(index, obs, *labels)
    state = buffer.state_dict()
    first = buffer.sample(np.array([5, 7]), np.random.default_rng(1))
    assert first.columns.shape[0] == 12
    buffer.add(index, obs, *labels)
    again = LabelBuffer(BODIES, 20, folder=tmp_path, slack=4)
    again.load_state_dict(state)
    second = again.sample(np.array([5, 7]), np.random.default_rng(1))
    np.testing.assert_array_equal(first.means, second.means)
    np.testing.assert_array_equal(first.columns, second.columns)
    for _ in range(9):
        buffer.add(index, obs, *labels)
    with pytest.raises(ValueError, match="newer records have taken its place"):
        again.load_state_dict(state)
