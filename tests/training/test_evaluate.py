"""Evaluation: each number against an episode of the single environment, run by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import sgrl
from sgrl.cli.eval import eval_command
from sgrl.envs import locomotion
from sgrl.envs.variant import Variant
from sgrl.morphology import Morphology, digest, get_body, mirror_of
from sgrl.training.acting import MirroredPolicy, RandomPolicy
from sgrl.training.evaluate import (
    EVALUATION_SEEDS,
    MAX_EPISODES,
    MAX_SEED,
    evaluate,
    evaluation_seeds,
    run_episodes,
)
from sgrl.training.results import BodyResult, Episode
from sgrl.training.settings import TrainSettings

from .untrained import HOPPER, WALKER, untrained_run


class Wave:
    """Actions that depend on the observation, row by row."""

    def act(self, obs: NDArray[np.float32], body: Morphology, /) -> NDArray[np.float32]:
        return np.sin(5 * obs[..., : body.action_dim], dtype=np.float32)


def by_hand(body: str, seed: int, variant: Variant, yaw: float | None, limit: int) -> Episode:
    env = sgrl.make_env(body, variant=variant, yaw=yaw, max_episode_steps=limit)
    observation, _ = env.reset(seed=seed)
    rewards, speeds = [], []
    while True:
        action = Wave().act(observation, get_body(body))
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(float(reward))
        speeds.append(info["speed_to_target"])
        if terminated or truncated:
            return Episode(
                seed=seed,
                total_reward=sum(rewards),
                length=len(rewards),
                speed=sum(speeds) / len(speeds),
                targets=info["targets_reached"],
                distance=info["distance"],
                fell=terminated,
                diverged=False,
                gained=sum(speeds) * get_body(body).dt,
            )


@pytest.mark.parametrize(
    ("body", "variant", "yaw", "limit"),
    [(HOPPER, "v1", None, 1000), (WALKER, "v2", None, 1000), (HOPPER, "v2", 0.5, 30)],
)
def test_episodes_are_those_of_the_single_environment(
    body: str, variant: Variant, yaw: float | None, limit: int
) -> None:
    (result,) = evaluate(
        Wave(), body, variant=variant, episodes=6, seed=3, yaw=yaw, max_episode_steps=limit
    )
    assert (result.body, result.variant) == (body, variant)
    seeds = evaluation_seeds(3, 6)
    assert result.episodes == tuple(by_hand(body, seed, variant, yaw, limit) for seed in seeds)


@pytest.mark.parametrize("variant", ["v1", "v2"])
def test_gained_is_what_is_missing_of_the_distance_at_the_start(variant: Variant) -> None:
    (result,) = evaluate(Wave(), WALKER, variant=variant, episodes=4, seed=3)
    env = sgrl.make_env(WALKER, variant=variant)
    for episode in result.episodes:
        assert episode.targets == 0
        _, info = env.reset(seed=episode.seed)
        assert episode.gained == pytest.approx(info["distance"] - episode.distance, abs=1e-6)
    assert len({round(episode.gained, 3) for episode in result.episodes}) == 4


def test_a_copy_counts_with_its_first_episode_only() -> None:
    """Short episodes must not count more often than long ones."""
    (result,) = evaluate(RandomPolicy(), HOPPER, episodes=20, threads=1)
    lengths = [episode.length for episode in result.episodes]
    assert len(lengths) == 20
    assert max(lengths) > 2 * min(lengths), "the shortest would have had time for another"
    assert all(episode.fell for episode in result.episodes)


def test_a_time_limit_is_no_fall() -> None:
    (result,) = evaluate(Wave(), HOPPER, episodes=3, max_episode_steps=4)
    assert [(e.length, e.fell, e.diverged) for e in result.episodes] == [(4, False, False)] * 3


def test_targets_are_counted_to_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locomotion, "REACH_DISTANCE", 50.0)
    (result,) = evaluate(Wave(), HOPPER, variant="v2", episodes=3, max_episode_steps=7)
    assert result.mean("targets") == 7


def test_a_body_does_not_depend_on_its_company() -> None:
    together = evaluate(Wave(), [WALKER, HOPPER, WALKER], episodes=4, max_episode_steps=20)
    alone = [evaluate(Wave(), b, episodes=4, max_episode_steps=20)[0] for b in (WALKER, HOPPER)]
    assert together == alone


def test_bodies_of_ones_own_and_collections() -> None:
    own = get_body("3d_walker_7_full").cut("left_thigh", name="one_leg")
    reported: list[BodyResult] = []
    results = evaluate(
        RandomPolicy(),
        [own, "3d_hopper++"],
        episodes=2,
        max_episode_steps=3,
        label="random",
        report=reported.append,
    )
    assert [result.body for result in results] == [
        "one_leg",
        *sgrl.get_collection("3d_hopper++").train,
    ]
    assert {result.policy for result in results} == {"random"}
    assert reported == results


def test_a_policy_in_the_mirror_lives_the_image_of_what_it_does_on_the_image() -> None:
    """From mirror images of a state, with mirror images of a target; `Wave` is not symmetric."""
    body = get_body("3d_cheetah_12_tail_leftffoot")
    mirror = mirror_of(body)
    rng = np.random.default_rng(0)
    env = sgrl.make_env(mirror.body)
    qpos, qvel = env.unwrapped.data.qpos.copy(), env.unwrapped.data.qvel.copy()
    qpos[7:] += rng.uniform(-0.05, 0.05, len(qpos) - 7)
    target = np.array([50.0, 20.0])
    start = {"qpos": qpos, "qvel": qvel, "target": target}
    back = mirror_of(mirror.body)
    images = back.state(qpos, qvel)
    image = {"qpos": images[0], "qvel": images[1], "target": target * (1, -1)}
    found = [
        evaluate(policy, one, episodes=1, threads=1, options=options, max_episode_steps=8)[0]
        for policy, one, options in (
            (Wave(), mirror.body, start),
            (MirroredPolicy(Wave()), body, image),
            (Wave(), body, image),
        )
    ]
    returns = [result.mean("total_reward") for result in found]
    assert returns[1] == pytest.approx(returns[0], rel=1e-3)
    assert returns[2] != pytest.approx(returns[0], rel=1e-2)


def test_the_random_policy_is_reproducible() -> None:
    obs, body = np.zeros((50, 123), np.float32), get_body(HOPPER)
    first, again, other = (RandomPolicy(seed).act(obs, body) for seed in (0, 0, 1))
    assert first.shape == (50, 6)
    assert first.dtype == np.float32
    assert -1 <= first.min() < -0.9 < 0.9 < first.max() <= 1
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert RandomPolicy().act(obs[0], body).shape == (6,)


def test_seeds_are_apart() -> None:
    """From those of trainings and of other evaluations, and within what an environment takes."""
    largest = 2**61 - 1  # what the settings draw is a number of 61 bits
    for seed in (0, 1, 2**32 - 1):
        assert 0 <= TrainSettings(seed=seed).environment_seed() <= largest
    copies = 2**60
    assert largest + copies < EVALUATION_SEEDS
    assert evaluation_seeds(0, 3) == [EVALUATION_SEEDS + i for i in range(3)]
    assert evaluation_seeds(1, 1)[0] - evaluation_seeds(0, 1)[0] == MAX_EPISODES
    assert evaluation_seeds(MAX_SEED, 1)[0] + MAX_EPISODES == 2**63


@pytest.mark.parametrize(
    ("seed", "episodes", "words"),
    [(-1, 1, "seed"), (MAX_SEED + 1, 1, "seed"), (0, 0, "episodes"), (0, -5, "episodes")],
)
def test_impossible_numbers_are_refused(seed: int, episodes: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evaluate(Wave(), HOPPER, seed=seed, episodes=episodes)


def test_no_body_and_an_unknown_one_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 3d_hopper_3_shin"):
        evaluate(Wave(), "3d_hopper_3_shi")
    with pytest.raises(ValueError, match="at least one body"):
        evaluate(Wave(), [])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = untrained_run(tmp_path)
    both: dict[str, Any] = {"episodes": 3, "variant": "v2", "random": True, "mirror": True}
    first = eval_command(run.path, (HOPPER,), **both, threads=1)
    assert first == run.path / "evaluations" / "001"
    shown = capsys.readouterr()
    assert shown.out.count(HOPPER) == 3
    assert shown.out.endswith(f"wrote {first}\n")
    assert shown.err.count("return") == 3
    written = json.loads((first / "summary.json").read_text())
    assert [row["policy"] for row in written["results"]] == [
        "set",
        "set mirrored",
        "random",
    ]
    assert {row["variant"] for row in written["results"]} == {"v2"}
    assert written["about"]["checkpoint"] == 100
    assert written["about"]["trained_on"] == [HOPPER, WALKER]

    again = eval_command(run.path, (HOPPER,), **both, threads=2)
    assert again == run.path / "evaluations" / "002"
    assert (again / "episodes.csv").read_bytes() == (first / "episodes.csv").read_bytes()


def test_far_and_near_targets_have_rows_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = untrained_run(tmp_path)
    folder = eval_command(run.path, (HOPPER, WALKER), episodes=2, variant="mixed", threads=1)
    rows = json.loads((folder / "summary.json").read_text())["results"]
    expected = [(body, variant) for variant in ("v1", "v2") for body in (HOPPER, WALKER)]
    assert [(row["body"], row["variant"]) for row in rows] == expected
    header, _, *lines = capsys.readouterr().out.splitlines()
    titles = [title.strip() for title in header.strip("|").split("|")]
    table = [
        dict(zip(titles, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        for line in lines
        if line.startswith("| set")
    ]
    assert [line["variant"] for line in table] == ["v1"] * 3 + ["v2"] * 3
    # Of one that was not trained: it falls where it stands, and there is no paper's number.
    assert [line["weak"] for line in table] == ["falls", "falls", "2 of 2"] * 2
    assert [line["targets"] for line in table] == [""] * 3 + ["0.00 ± 0.00"] * 2 + ["0.00"]
    assert all(abs(float(line["gained (m)"].split()[0])) < 2 for line in table)
    assert "paper" not in titles
    assert "distance (m)" not in titles


def test_the_command_disturbs_and_records_with_what(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path)
    words = ("mass=2", "push=1.5", "push_interval=0.1")
    harder = eval_command(run.path, (HOPPER,), episodes=3, disturb=words)
    written = json.loads((harder / "summary.json").read_text())
    levels = {"mass": 2.0, "push": 1.5, "push_interval": 0.1}
    assert written["about"]["disturbances"] == levels
    assert written["about"]["physics"] == digest.physics()
    (expected,) = evaluate(sgrl.load_policy(run.path), HOPPER, episodes=3, options=levels)
    assert written["results"][0]["total_reward_mean"] == expected.mean("total_reward")
    (easy,) = evaluate(sgrl.load_policy(run.path), HOPPER, episodes=3)
    assert easy.episodes != expected.episodes


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("friction", "NAME=LEVEL, as friction=0.5, not 'friction'; there are friction, mass"),
        ("friction=low", "NAME=LEVEL"),
        ("wind=1", "unknown disturbance 'wind'"),
        ("mass=99", "mass is a number from 0.1 to 10"),
    ],
)
def test_a_disturbance_that_there_is_not(tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        eval_command(tmp_path / "no run", (HOPPER,), disturb=(word,))


def test_the_command_warns_where_physics_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = untrained_run(tmp_path)
    eval_command(run.path, (HOPPER,), episodes=1)
    assert "physics" not in capsys.readouterr().err
    monkeypatch.setattr(digest, "KNOWN", {mujoco.__version__: "0123456789abcdef"})
    eval_command(run.path, (HOPPER,), episodes=1)
    assert f"physics differs: {run.path.name} was measured with MuJoCo" in capsys.readouterr().err


def test_the_command_leaves_the_cores_to_physics(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        eval_command(run.path, (HOPPER,), episodes=1, threads=2)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_the_command_takes_the_runs_bodies(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path)
    out = tmp_path / "deep" / "results"
    assert eval_command(run.path, episodes=1, out=out) == out
    rows = json.loads((out / "summary.json").read_text())["results"]
    assert [(row["body"], row["variant"]) for row in rows] == [(HOPPER, "v1"), (WALKER, "v1")]
    before = (out / "summary.json").read_bytes()
    with pytest.raises(FileExistsError, match="name a folder that does not"):
        eval_command(run.path, episodes=1, out=out)
    assert (out / "summary.json").read_bytes() == before


def test_a_command_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    run, _ = untrained_run(tmp_path, method="monolithic")
    with pytest.raises(ValueError, match=f"can't take {WALKER}"):
        eval_command(run.path, (WALKER,), episodes=1)
    assert not list((run.path / "evaluations").iterdir())


def test_rows_may_have_options_and_starts_of_their_own() -> None:
    """As in benchmarks/robustness.py: conditions side by side are what they are one by one."""
    seeds, levels = evaluation_seeds(0, 3), {"mass": 1.0, "push": 0.0, "push_interval": 2.0}
    conditions = [{}, {"mass": 1.5}, {"push": 3.0, "push_interval": 0.1}]
    each = {
        key: np.repeat([one.get(key, none) for one in conditions], 3)
        for key, none in levels.items()
    }
    together = run_episodes(Wave(), get_body(HOPPER), seeds * 3, each)
    assert len(set(together)) == 9
    for number, options in enumerate(conditions):
        (alone,) = evaluate(Wave(), HOPPER, episodes=3, options=options)
        assert together[3 * number : 3 * number + 3] == alone.episodes
