"""Trainings that always start at one angle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sgrl.training.loop import train
from sgrl.training.settings import TrainSettings
from sgrl.training.settings_file import settings_from_json, settings_to_json

from .tiny import TINY, read_metrics


def test_the_angle_is_kept_and_makes_a_difference(tmp_path: Path) -> None:
    given = TrainSettings(yaw=1.5)
    assert settings_from_json(settings_to_json(given)) == given
    runs = [
        train(replace(TINY, yaw=yaw, steps=200, runs=tmp_path, name=name))
        for name, yaw in (("any", None), ("zero", 0.0), ("again", 0.0))
    ]
    anywhere, zero, again = (read_metrics(run) for run in runs)
    assert zero == again
    assert zero != anywhere


def test_an_angle_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="yaw must lie between"):
        train(replace(TINY, yaw=np.inf, runs=tmp_path))
