"""What was recorded under earlier names, and by an earlier version, is understood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgrl.algorithms.ppo_config import PPOConfig
from sgrl.algorithms.registry import algorithm_named
from sgrl.algorithms.td3_config import TD3Config
from sgrl.training.run import SHIPPED, Run
from sgrl.training.settings import TrainSettings, resolve_settings
from sgrl.training.settings_file import settings_from_json, settings_to_json

RECORDED = Path(__file__).parent / "recorded"


def test_settings_of_td3() -> None:
    settings = settings_from_json((RECORDED / "td3-before-0.2.json").read_text())
    assert settings.algorithm == "td3"
    assert (settings.steps, settings.envs_per_body, settings.yaw) == (5000, 3, 0.5)
    assert settings.config == TD3Config(
        gamma=0.9,
        tau=0.01,
        max_grad_norm=0.2,
        batch_size=7,
        per_limb=False,
        learning_starts=50,
        utd_ratio=0.5,
        batches="in_turn",
        buffer_size=5006,
    )
    assert settings.eval_every == 0
    assert settings_from_json(settings_to_json(settings)) == settings
    assert resolve_settings(settings) == settings


def test_settings_of_ppo() -> None:
    settings = settings_from_json((RECORDED / "ppo-before-0.2.json").read_text())
    assert (settings.algorithm, settings.minutes, settings.variant) == ("ppo", 5.0, "mixed")
    assert settings.envs_per_body == 21
    assert settings.config == PPOConfig(
        n_steps=8,
        n_epochs=3,
        batch_size=99,
        horizon=3.0,
        gae_lambda=0.9,
        clip_range=0.3,
        desired_kl=0.02,
        ent_coef=0.01,
        action_penalty_coef=0.03,
        max_grad_norm=0.5,
        survival_bonus=1.0,
        mirror_loss_coef=0.3,
        compile="no",
    )


def test_settings_from_before_there_were_other_algorithms() -> None:
    values = json.loads((RECORDED / "td3-before-0.2.json").read_text())
    for name in ("ppo", "algorithm"):
        del values[name]
    assert settings_from_json(json.dumps(values)).algorithm == "td3"


def test_settings_of_a_policy_that_shipped() -> None:
    recorded = (RECORDED / "set-walker-before-0.2.json").read_text()
    settings = settings_from_json(recorded)
    assert type(settings.config) is PPOConfig
    values = json.loads(recorded)
    assert settings.config.batch_size == values["ppo"]["batch"]
    assert settings.envs_per_body == values["copies"]


@pytest.mark.parametrize("folder", sorted(SHIPPED.glob("*/")), ids=lambda folder: folder.name)
def test_settings_of_what_ships(folder: Path) -> None:
    settings = Run(folder).settings()
    assert settings.bodies
    assert type(settings.config) is algorithm_named(settings.algorithm).config_class()


def test_what_is_not_known_is_refused() -> None:
    values = json.loads(settings_to_json(TrainSettings(bodies=("3d_hopper_5_full",))))
    for changed in ({"colour": 1}, {"config": {"colour": 1}}):
        with pytest.raises(ValueError, match=r"does not understand: .*colour"):
            settings_from_json(json.dumps(values | changed))


def test_columns_of_metrics(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(
        "steps,return,kl,clipped,spread,q\n10,1.5,0.1,0.2,0.3,4\n"
    )
    assert Run(tmp_path).metrics() == [
        {
            "steps": 10,
            "return": 1.5,
            "approx_kl": 0.1,
            "clip_fraction": 0.2,
            "std": 0.3,
            "q_mean": 4,
        }
    ]
