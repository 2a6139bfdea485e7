"""Settings: what is resolved, what is refused, what comes back from the file."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import sgrl
from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.algorithms.registry import ALGORITHMS
from sgrl.algorithms.td3_config import TD3Config
from sgrl.command_line import parse_whole
from sgrl.models.methods import METHODS, PRESETS, get_method
from sgrl.models.monolithic import MonolithicConfig
from sgrl.models.set import SETConfig
from sgrl.morphology import get_body
from sgrl.training.command import parse_settings
from sgrl.training.settings import (
    TrainSettings,
    check_device,
    plain,
    resolve_settings,
    resumed_settings,
    started_from,
)
from sgrl.training.settings_file import settings_from_json, settings_to_json

from .tiny import TINY

Make = Callable[..., TrainSettings]


def test_resolving_leaves_nothing_open() -> None:
    settings = resolve_settings(
        TrainSettings(bodies=("3d_hopper++",), method="swat+hn", algorithm="td3", seed=3)
    )
    assert settings.bodies == ("3d_hopper_3_shin", "3d_hopper_4_lower_shin", "3d_hopper_5_full")
    assert settings.steps == 1_000_000
    assert settings.threads == os.cpu_count()
    assert settings.name == "swat_hn-3d_hopperpp-seed3"
    assert settings.config.buffer_size == 1_000_000 + 3 * settings.envs_per_body
    assert settings.network == plain(get_method("swat").fast)
    assert resolve_settings(settings) == settings


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_preset_s_sizes_are_recorded(method: str, preset: str) -> None:
    asked = TrainSettings(
        bodies=("3d_hopper_5_full",), method=method, preset=preset, algorithm="td3"
    )
    settings = resolve_settings(asked)
    assert settings.network == plain(get_method(method).config(preset))
    assert settings_from_json(settings_to_json(settings)) == settings
    # Whoever goes on gives the preset or nothing.
    assert resumed_settings(replace(asked, resume=Path("x")), settings) == settings


def test_sizes_of_a_method_of_your_own_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "mine", METHODS["swat"])
    asked = TrainSettings(bodies=("3d_hopper_5_full",), method="mine", algorithm="td3")
    text = settings_to_json(resolve_settings(asked))
    monkeypatch.delitem(METHODS, "mine")
    assert settings_from_json(text).network is None


def test_a_start_from_other_weights_takes_their_sizes(tiny: Make) -> None:
    source, asked = resolve_settings(tiny()), tiny(network=None)
    assert started_from(asked, source).network == plain(TINY.network)
    for change in ({"network": SETConfig()}, {"method": "swat"}, {"preset": "paper"}):
        given = replace(asked, **change)
        assert started_from(given, source) == given


def test_the_buffer_is_the_paper_s_in_a_long_run_and_as_told_if_told() -> None:
    asked = TrainSettings(bodies=("3d_hopper_5_full",), algorithm="td3", steps=30_000_000)
    assert resolve_settings(asked).config.buffer_size == 10_000_000
    small = replace(asked, steps=10, config=TD3Config(buffer_size=500))
    assert resolve_settings(small).config.buffer_size == 500


def test_they_come_back_from_json(tiny: Make) -> None:
    for settings in (
        tiny(),
        tiny(network=None, resume=Path("x"), per_limb=False),
        tiny(algorithm="ppo", config=PPOConfig(n_epochs=7)),
        tiny(
            method="monolithic",
            bodies=("3d_hopper_3_shin",),
            network=MonolithicConfig((16, 16)),
        ),
    ):
        resolved = resolve_settings(settings)
        assert settings_from_json(settings_to_json(resolved)) == resolved


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
        ({"steps": 0}, "steps must lie between 1 and"),
        ({"steps": 10**13}, "steps must lie between 1 and 1,000,000,000,000, not"),
        ({"envs_per_body": 0}, "envs_per_body must lie between 1 and 100,000, not 0"),
        ({"seed": -1}, "seed must lie between 0 and 4,294,967,295, not -1"),
        ({"keep": 0}, "keep must lie between 1 and"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
        ({"name": "../elsewhere"}, "name of a folder"),
        ({"bodies": "3d_hopper_5_full"}, "a tuple of names.*not '3d_hopper_5_full'"),
        ({"bodies": (get_body("3d_hopper_5_full"),)}, "a tuple of names"),
        ({"algorithm": "tdd3"}, "did you mean td3"),
        ({"name": "a@b"}, "has no @"),
        ({"yaw": 1e9}, "yaw must lie between"),
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
    recorded = resolve_settings(tiny(batch_size=7, tau=0.5))
    again = TrainSettings(resume=Path("x"), config=TD3Config(batch_size=7, utd_ratio=0.1))
    assert resumed_settings(again, recorded) == recorded
    other = TrainSettings(resume=Path("x"), config=TD3Config(batch_size=7, tau=0.1))
    with pytest.raises(ValueError, match=r"keeps its settings: td3\.tau is 0\.5, not 0\.1"):
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
    line = "--algorithm td3 --method swat+hn --bodies 3d_cwhh++ 3d_hopper_5_full --steps 5"
    assert parse_settings([*line.split(), "--td3.no-per-limb"]) == TrainSettings(
        algorithm="td3",
        method="swat+hn",
        bodies=("3d_cwhh++", "3d_hopper_5_full"),
        steps=5,
        config=TD3Config(per_limb=False),
    )
    with pytest.raises(SystemExit):
        parse_settings(["--help", "all"])
    shown = capsys.readouterr().out
    for one in fields(TrainSettings):
        if one.name not in ("config", "network"):
            assert f"--{one.name.replace('_', '-')}" in shown
    for name, config in (("td3", TD3Config), ("ppo", PPOConfig)):
        for one in fields(config):
            assert f"--{name}.{one.name.replace('_', '-')}" in shown
    assert "--network" not in shown


def test_options_of_another_algorithm_are_refused() -> None:
    with pytest.raises(ValueError, match=r"--ppo.horizon: only with --algorithm ppo, not td3"):
        parse_settings(["--algorithm", "td3", "--bodies", "3d_hopper_5_full", "--ppo.horizon", "3"])


def test_a_resumed_run_knows_its_algorithm(tiny: Make) -> None:
    recorded = resolve_settings(tiny(algorithm="ppo", config=PPOConfig(n_epochs=7)))
    again = parse_settings(["--resume", "x", "--ppo.n-epochs", "7"])
    assert resumed_settings(again, recorded) == recorded
    other = parse_settings(["--resume", "x", "--td3.tau", "0.1"])
    with pytest.raises(ValueError, match="algorithm is 'ppo', and TD3Config is of another"):
        resumed_settings(other, recorded)


def test_a_device_without_double_precision_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_float64(*_: object, dtype: torch.dtype | None = None, device: str) -> None:
        if dtype == torch.float64:
            raise TypeError("float64 is not supported")

    monkeypatch.setattr("torch.empty", no_float64)
    with pytest.raises(ValueError, match="device 'mps' cannot be used: float64"):
        check_device("mps")


@pytest.mark.parametrize(
    "script",
    [
        "from sgrl.training.command import parse_settings; parse_settings(['--help', 'all'])",
        "from sgrl.training.command import parse_settings; parse_settings(['--recipe', 'paper'])",
        "from sgrl.training.run import Run, SHIPPED; Run(SHIPPED / 'set-hopper').settings()",
        "import sgrl.cli; sys.argv = ['sgrl', '--help']; sgrl.cli.main()",
    ],
)
def test_reading_settings_and_help_need_no_torch(script: str) -> None:
    code = f"""
import sys, time
start = time.perf_counter()
try:
    exec({script!r})
except SystemExit:
    pass
print('torch' in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "False"


def test_outside_algorithms_nothing_asks_which_one_it_is() -> None:
    """No comparison with, and no match of, the name of one."""
    package = Path(sgrl.__file__).parent
    for path in package.rglob("*.py"):
        if package / "algorithms" in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare | ast.match_case):
                words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
                assert not words & ALGORITHMS.keys(), f"{path}: {ast.unparse(node)}"


def test_numbers_may_be_written_short() -> None:
    settings = parse_settings(["--body", "3d_hopper_5_full", "--steps", "2e6", "--seed", "1_0"])
    assert (settings.bodies, settings.steps, settings.seed) == (
        ("3d_hopper_5_full",),
        2_000_000,
        10,
    )
    for text in ("1.5", "1e3x", "inf", "nan", "many"):
        with pytest.raises(ValueError, match=f"{text} is not a whole number"):
            parse_whole(text)
    with pytest.raises(SystemExit):
        parse_settings(["--steps", "1.5"])
