"""Which runs belong together, and what the others are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.algorithms.td3_config import TD3Config
from sgrl.models.set import SETConfig
from sgrl.morphology import resolve_bodies
from sgrl.report.groups import Group, differing_settings, make_groups, task_of
from sgrl.report.runs import read_runs
from tests.report.made import HOPPERS, WALKER, made_run


def groups_of(folder: Path, *changes: dict[str, Any]) -> list[Group]:
    """Groups of runs that differ so, each on one hopper unless it says otherwise."""
    runs = []
    for change in changes:
        own = dict(change)
        bodies = own.pop("bodies", HOPPERS[:1])
        runs.append(made_run(folder, dict.fromkeys(bodies, 1.0), rows=2, **own).path)
    return make_groups(read_runs(runs))


def labels(folder: Path, *changes: dict[str, Any]) -> list[str]:
    return [group.label for group in groups_of(folder, *changes)]


def test_runs_that_differ_only_by_seed_are_one_group(tmp_path: Path) -> None:
    groups = groups_of(
        tmp_path,
        {"seed": 2},
        {"method": "swat"},
        {"seed": 1, "name": "other", "log_every": 50, "checkpoint_every": 70},
    )
    assert [group.label for group in groups] == ["set", "swat"]
    assert [run.settings.seed for run in groups[0].runs] == [1, 2]


def test_a_label_names_what_it_needs_and_no_more(tmp_path: Path) -> None:
    assert labels(
        tmp_path,
        {},
        {"config": PPOConfig(n_epochs=7, gae_lambda=0.5)},
        {"method": "swat", "variant": "v2"},
        {"network": SETConfig(layers=2)},
        {"network": SETConfig(layers=3)},
    ) == [
        f"set · preset sizes · n_epochs {PPOConfig().n_epochs}",
        "set · preset sizes · n_epochs 7",
        "swat",
        "set · own sizes · layers 2",
        "set · own sizes · layers 3",
    ]


def test_sizes_of_the_preset_are_the_same_recorded_or_not(tmp_path: Path) -> None:
    """Runs of before recorded none."""
    assert labels(tmp_path, {}, {"network": SETConfig()}) == ["set"]


def test_the_same_method_on_other_bodies_has_the_same_label(tmp_path: Path) -> None:
    groups = groups_of(
        tmp_path,
        {"steps": 500},
        {"bodies": (WALKER,), "steps": 900},
        {"bodies": (WALKER,), "steps": 900, "method": "smp"},
    )
    assert [(group.label, group.task) for group in groups] == [
        ("set", HOPPERS[0]),
        ("set", WALKER),
        ("smp", WALKER),
    ]


def test_but_not_if_they_have_a_body_in_common(tmp_path: Path) -> None:
    found = labels(tmp_path, {"bodies": HOPPERS, "envs_per_body": 4}, {"envs_per_body": 4})
    assert found == [f"set · {', '.join(HOPPERS)}", f"set · {HOPPERS[0]}"]


def test_different_methods_never_share_a_label(tmp_path: Path) -> None:
    """Alone on their bodies both would be `set`, but they are not the same."""
    found = labels(
        tmp_path,
        {"algorithm": "td3"},
        {"bodies": (WALKER,)},
        {"method": "smp"},
        {"bodies": (WALKER,), "method": "smp"},
        {"method": "set", "algorithm": "ppo"},
    )
    assert found == ["set · td3", "set · ppo", "smp", "smp", "set · ppo"]


def test_fine_tuning_from_each_seed_of_a_run_is_one_group(tmp_path: Path) -> None:
    sources = [made_run(tmp_path, {HOPPERS[0]: 1.0}, seed=seed).path for seed in (0, 1)]
    groups = groups_of(
        tmp_path / "fine",
        *({"seed": seed, "variant": "v2", "init_from": sources[seed]} for seed in (0, 1)),
    )
    assert [len(group.runs) for group in groups] == [2]


def test_a_run_that_was_cut_short_is_still_the_same_experiment(tmp_path: Path) -> None:
    td3 = {"algorithm": "td3", "steps": 500}
    assert (
        len(groups_of(tmp_path, td3, td3 | {"seed": 1, "config": TD3Config(buffer_size=9000)})) == 1
    )
    assert (
        len(groups_of(tmp_path, td3, td3 | {"seed": 1, "config": TD3Config(buffer_size=100)})) == 2
    )


def test_settings_that_differ(tmp_path: Path) -> None:
    groups = groups_of(tmp_path, {}, {"envs_per_body": 2, "seed": 4}, {"algorithm": "td3"})
    assert differing_settings(groups) == {
        "algorithm": ["ppo", "ppo", "td3"],
        "envs_per_body": ["64", "2", "4"],
    }
    assert differing_settings(groups[:1]) == {}


def test_bodies_in_a_word() -> None:
    assert task_of([WALKER]) == WALKER
    assert task_of(["3d_hopper_5_full", "3d_hopper_3_shin", "3d_hopper_4_lower_shin"]) == (
        "3d_hopper++"
    )
    cheetahs = resolve_bodies(["3d_cheetah++", "3d_cheetah++_mirrored"])
    assert task_of([body.name for body in cheetahs]) == "3d_cheetah++ and 6 mirror images"
    assert task_of(["a", "b"]) == "a, b"
    assert task_of(["a", "b", "c", "d"]).startswith("4 bodies")
