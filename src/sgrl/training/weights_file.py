"""A policy as one file: weights in safetensors, and beside them the card of a published policy."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgrl.files import SafeFolder
from sgrl.plugins import TRUST
from sgrl.training.checkpoint import MOST_BYTES, WEIGHTS, decode_tensors
from sgrl.training.place import BEST
from sgrl.training.run import Run
from sgrl.training.settings import TrainSettings

if TYPE_CHECKING:
    from torch import Tensor

SUFFIX = ".safetensors"
CARD = "card.json"


def checkpoint_of(file: Path) -> tuple[Path, str | int] | None:
    """The run and the checkpoint in it that a file of weights belongs to, if it does to one."""
    folder = file.absolute().parent
    run = folder.parent.parent
    if not folder.name.isdecimal() or not (run / "settings.json").is_file():
        return None
    return run, BEST if folder.parent.name == BEST else int(folder.name)


def read_weights_file(file: Path) -> tuple[TrainSettings, int, dict[str, Tensor]]:
    """The settings and steps that the card beside a file of weights tells of, and the weights.

    ValueError or OSError if there is no card, or it is not one of these weights.
    """
    folder = SafeFolder(file.parent)
    data = folder.read(file.name, MOST_BYTES[WEIGHTS])
    if not folder.has_file(CARD):
        raise FileNotFoundError(
            f"{file} has no card beside it: put the {CARD} of the policy into {file.parent}, or "
            "name the folder of the whole policy"
        )
    TRUST.distrust(run=file.parent)
    card = Run(file.parent).card()
    try:
        settings, steps = _told(card)
        settings.morphologies()
    except ValueError as error:
        raise ValueError(f"{file.parent / CARD}: {error}") from None
    digest = hashlib.sha256(data).hexdigest()
    if card.get("weights_sha256", digest) != digest:  # cards of earlier versions have none
        raise ValueError(f"{file} is truncated or altered, or {CARD} is of other weights")
    return settings, steps, decode_tensors(data, file)


def _told(card: dict[str, Any]) -> tuple[TrainSettings, int]:
    match card:
        case {
            "method": str(method),
            "preset": str(preset),
            "bodies": [str(), *_] as bodies,
            "steps": int(steps),
        } if all(isinstance(name, str) for name in bodies):
            network = card.get("network")  # the preset's, in cards of earlier versions
            if network is None or isinstance(network, dict):
                told = TrainSettings(
                    bodies=tuple(bodies), method=method, preset=preset, network=network
                )
                return told, steps
    raise ValueError("it does not say method, preset, bodies and steps of a policy")
