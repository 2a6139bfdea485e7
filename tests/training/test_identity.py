"""What a training is: the same under other names and other defaults."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sgrl.algorithms.config import AlgorithmConfig
from sgrl.algorithms.registry import ALGORITHMS
from sgrl.algorithms.td3_config import TD3Config
from sgrl.experiments.runner import make_job, run_job
from sgrl.setting import setting
from sgrl.training.identity import identity_digest, identity_of
from sgrl.training.settings import TrainSettings, settled

from .tiny import TINY, with_changes


def renamed_config() -> type[AlgorithmConfig]:
    """TD3's config of a later version: `gamma` is called otherwise and has another default, and
    there is a field that earlier runs did not have."""
    fields: list[Any] = [
        ("discount_factor", float, dataclasses.field(default=0.5, metadata=one.metadata))
        if one.name == "gamma"
        else (one.name, one.type, dataclasses.field(default=one.default, metadata=one.metadata))
        for one in dataclasses.fields(TD3Config)
    ]
    fields.append(("dropout", float, setting(0.1, key="dropout", before=0.0)))
    names = TD3Config.old_names
    return dataclasses.make_dataclass(
        "LaterConfig",
        fields,
        bases=(AlgorithmConfig,),
        frozen=True,
        namespace={
            "old_names": names | {"gamma": "discount_factor"},
            "moved_here": TD3Config.moved_here,
            "resolved": TD3Config.resolved,
        },
    )


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> type[AlgorithmConfig]:
    """TD3 has the config of a later version."""
    config, module = renamed_config(), ModuleType("later")
    module.LaterConfig = config  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "later", module)
    row = replace(ALGORITHMS["td3"], config="later:LaterConfig")
    monkeypatch.setitem(ALGORITHMS, "td3", row)
    return config


def test_a_job_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """After a field was renamed, defaults changed and a field came in."""
    job = make_job(with_changes(TINY, gamma=0.99, utd_ratio=0.0), "", tmp_path)
    run_job(job)
    later = request.getfixturevalue("later")
    values = {
        one.name: getattr(job.settings.config, one.name)
        for one in dataclasses.fields(later)
        if hasattr(job.settings.config, one.name)
    }
    asked = replace(TINY, config=later(**values, discount_factor=0.99, dropout=0.0))
    again = make_job(asked, "", tmp_path)
    assert again.name == job.name
    assert again.state().phase == "done"
    others = (
        replace(asked, config=later(**values, dropout=0.0)),
        replace(asked, config=later(**values, discount_factor=0.99)),
    )
    for other in others:
        assert make_job(other, "", tmp_path).name != job.name


def test_what_is_resolved_identifies() -> None:
    asked = TrainSettings(bodies=("3d_hopper++",), algorithm="td3")
    resolved = settled(asked)
    same = replace(asked, bodies=resolved.bodies, steps=1_000_000, envs_per_body=4, eval_every=0)
    assert identity_of(settled(same)) == identity_of(resolved)
    same = replace(same, threads=3, device="cuda", runs=Path("x"), keep=7, name="y", wandb=True)
    assert identity_digest(identity_of(settled(same))) == identity_digest(identity_of(resolved))
    for change in ({"seed": 1}, {"steps": 7}, {"method": "swat"}, {"eval_every": 100}):
        assert identity_of(settled(replace(asked, **change))) != identity_of(resolved)


def test_a_run_that_was_named_by_an_earlier_version_is_found(tmp_path: Path) -> None:
    job = make_job(with_changes(TINY, utd_ratio=0.0, steps=40), "", tmp_path)
    run_job(job)
    earlier = job.folder.rename(job.folder.with_name(job.name[:-8] + "01234567"))
    again = make_job(with_changes(TINY, utd_ratio=0.0, steps=40), "", tmp_path)
    assert again.folder == earlier
    assert again.state().phase == "done"


def test_the_preset_s_name_does_not_count_where_its_sizes_are_known() -> None:
    identity = identity_of(settled(TrainSettings(bodies=("3d_hopper_5_full",), method="swat")))
    assert "preset" not in identity
    assert any(name.startswith("network.") for name in identity)
