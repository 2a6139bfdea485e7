"""Settings: what is resolved, what is refused, what comes back from the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import tyro

from sgrl.algorithms.ppo_config import PpoConfig
from sgrl.algorithms.td3 import Td3Config
from sgrl.models.methods import METHODS, PRESETS, get_method
from sgrl.models.monolithic import MonolithicConfig
from sgrl.models.set import SetConfig
from sgrl.morphology import get_body
from sgrl.training.settings import (
    TrainSettings,
    check_device,
    resolve_settings,
    resumed_settings,
    settings_from_json,
    settings_to_json,
    started_from,
)

from .tiny import TINY

Make = Callable[..., TrainSettings]


def test_resolving_leaves_nothing_open() -> None:
    settings = resolve_settings(TrainSettings(bodies=("3d_hopper++",), method="swat+hn", seed=3))
    assert settings.bodies == ("3d_hopper_3_shin", "3d_hopper_4_lower_shin", "3d_hopper_5_full")
    assert settings.steps == 1_000_000
    assert settings.threads == os.cpu_count()
    assert settings.name == "swat_hn-3d_hopperpp-seed3"
    assert settings.buffer == 1_000_000 + 3 * settings.copies
    assert settings.network == get_method("swat").fast
    assert resolve_settings(settings) == settings


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_preset_s_sizes_are_recorded(method: str, preset: str) -> None:
    asked = TrainSettings(bodies=("3d_hopper_5_full",), method=method, preset=preset)
    settings = resolve_settings(asked)
    assert settings.network == get_method(method).config(preset)
    assert settings_from_json(settings_to_json(settings)) == settings
    # Whoever goes on gives the preset or nothing.
    assert resumed_settings(replace(asked, resume=Path("x")), settings) == settings


def test_sizes_of_a_method_of_your_own_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "mine", METHODS["swat"])
    asked = TrainSettings(bodies=("3d_hopper_5_full",), method="mine")
    text = settings_to_json(resolve_settings(asked))
    monkeypatch.delitem(METHODS, "mine")
    assert settings_from_json(text).network is None


def test_a_start_from_other_weights_takes_their_sizes(tiny: Make) -> None:
    source, asked = resolve_settings(tiny()), tiny(network=None)
    assert started_from(asked, source).network == TINY.network
    for change in ({"network": SetConfig()}, {"method": "swat"}, {"preset": "paper"}):
        given = replace(asked, **change)
        assert started_from(given, source) == given


def test_the_buffer_is_the_paper_s_in_a_long_run_and_as_told_if_told() -> None:
    body = ("3d_hopper_5_full",)
    assert resolve_settings(TrainSettings(bodies=body, steps=30_000_000)).buffer == 10_000_000
    assert resolve_settings(TrainSettings(bodies=body, steps=10, buffer=500)).buffer == 500


def test_they_come_back_from_json(tiny: Make) -> None:
    for settings in (
        tiny(),
        tiny(network=None, resume=Path("x"), td3=Td3Config(per_limb=False)),
        tiny(method="monolithic", network=MonolithicConfig((16, 16))),
    ):
        assert settings_from_json(settings_to_json(settings)) == settings


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"bodies": [], "td3": {"colour": 1}}'])
def test_a_file_of_something_else(text: str) -> None:
    with pytest.raises(ValueError, match="does not understand"):
        settings_from_json(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bodies": ()}, "name the bodies"),
        ({"bodies": ("3d_hoper_5_full",)}, "did you mean 3d_hopper_5_full"),
        ({"bodies": ("3d_hopper++", "3d_hopper_5_full")}, "named twice: 3d_hopper_5_full"),
        ({"method": "sett"}, "did you mean set"),
        ({"preset": "slow"}, "there are fast, many, paper"),
        ({"method": "monolithic"}, "exactly one body, not for these 2"),
        ({"steps": 0}, "steps must be 1 or more"),
        ({"copies": 0}, "copies must be 1 or more"),
        ({"updates_per_step": float("nan")}, "updates_per_step must be 0 or more"),
        ({"seed": -1}, "a seed is"),
        ({"keep": 0}, "keep must be 1 or more"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
        ({"name": "../elsewhere"}, "name of a folder"),
        ({"bodies": "3d_hopper_5_full"}, "a tuple of names.*not '3d_hopper_5_full'"),
        ({"bodies": (get_body("3d_hopper_5_full"),)}, "a tuple of names"),
        (
            {"ppo": PpoConfig(kl=0.1, value_learning_rate=0.1)},
            "--ppo.kl, --ppo.value-learning-rate",
        ),
    ],
)
def test_mistakes(tiny: Make, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_settings(tiny(**changes))


def test_weights_and_biases_is_an_extra(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'sgrl\[tracking\]'"):
        resolve_settings(tiny(wandb=True))


def test_a_resumed_run_keeps_its_settings(tiny: Make) -> None:
    recorded = resolve_settings(tiny(seed=5))
    assert resumed_settings(TrainSettings(resume=Path("x")), recorded) == recorded
    more = resumed_settings(TrainSettings(resume=Path("x"), steps=9999, seed=5), recorded)
    assert more == replace(recorded, steps=9999)
    with pytest.raises(ValueError, match="keeps its settings: seed is 5, not 6"):
        resumed_settings(TrainSettings(resume=Path("x"), seed=6), recorded)
    with pytest.raises(ValueError, match="keeps its settings: bodies"):
        resumed_settings(TrainSettings(resume=Path("x"), bodies=("3d_cwhh++",)), recorded)


def test_a_resumed_run_may_be_told_part_of_its_settings_again(tiny: Make) -> None:
    recorded = resolve_settings(tiny(td3=Td3Config(batch=7, polyak=0.5)))
    again = TrainSettings(resume=Path("x"), td3=Td3Config(batch=7))
    assert resumed_settings(again, recorded) == recorded
    other = TrainSettings(resume=Path("x"), td3=Td3Config(batch=7, polyak=0.1))
    with pytest.raises(ValueError, match=r"keeps its settings: td3\.polyak is 0\.5, not 0\.1"):
        resumed_settings(other, recorded)


def test_a_resumed_run_may_have_other_threads(tiny: Make) -> None:
    recorded = resolve_settings(tiny(threads=64))
    changed = resumed_settings(TrainSettings(resume=Path("x"), threads=2), recorded)
    assert changed == replace(recorded, threads=2)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux tells which cores")
def test_threads_are_as_many_as_cores_that_may_be_used(tiny: Make) -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert resolve_settings(tiny(threads=0)).threads == 1
    finally:
        os.sched_setaffinity(0, before)


def test_runs_with_neighbouring_seeds_share_no_environment() -> None:
    starts = sorted(TrainSettings(seed=seed).environment_seed() for seed in range(2000))
    assert min(b - a for a, b in pairwise(starts)) > 2**20
    assert starts[-1] < 2**61


def test_the_command_line_has_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--method swat+hn --bodies 3d_cwhh++ 3d_hopper_5_full --steps 5 --td3.no-per-limb"
    settings = tyro.cli(TrainSettings, args=line.split())
    assert settings == TrainSettings(
        method="swat+hn",
        bodies=("3d_cwhh++", "3d_hopper_5_full"),
        steps=5,
        td3=Td3Config(per_limb=False),
    )
    with pytest.raises(SystemExit):
        tyro.cli(TrainSettings, args=["--help"])
    shown = capsys.readouterr().out
    for one in fields(TrainSettings):
        if one.name not in ("td3", "network"):
            assert f"--{one.name.replace('_', '-')}" in shown
    assert "--network" not in shown


def test_a_device_without_double_precision_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_float64(*_: object, dtype: torch.dtype | None = None, device: str) -> None:
        if dtype == torch.float64:
            raise TypeError("float64 is not supported")

    monkeypatch.setattr("torch.empty", no_float64)
    with pytest.raises(ValueError, match="device 'mps' cannot be used: float64"):
        check_device("mps")
