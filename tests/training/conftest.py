"""Settings of trainings in temporary folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sgrl.training.settings import TrainSettings
from tests.training.tiny import TINY, with_changes


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., TrainSettings]:
    """Settings of a tiny training in a temporary folder, with changes."""

    def make(**changes: Any) -> TrainSettings:
        return with_changes(TINY, **({"runs": tmp_path / "runs"} | changes))

    return make


@pytest.fixture(autouse=True)
def _own_torch_settings() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
