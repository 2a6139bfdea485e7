"""What makes a training the one it is: stable keys and resolved values.

Whatever fields are called and their defaults are, equal trainings have equal identities. So no
renaming and no new default makes a training of earlier lose its place.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from sgrl.setting import setting_of
from sgrl.training.settings import TrainSettings, plain


def identity_of(settings: TrainSettings) -> dict[str, Any]:
    """Stable keys and values, as JSON has them, of resolved settings.

    A value that all runs had before there was a field for it is left out. What a run starts from
    is known by the name of its folder, wherever that lies.
    """
    identity = _flat(settings, "")
    if settings.init_from is not None:
        identity["init_from"] = settings.init_from.name
    sizes = _sizes(settings)
    if sizes is not None:
        del identity["preset"]  # whatever it stood for then
        identity |= {f"network.{name}": value for name, value in sizes.items()}
    return identity


def identity_digest(identity: dict[str, Any]) -> str:
    """Eight hexadecimal digits that stand for an identity."""
    text = json.dumps(identity, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _flat(value: Any, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        known, own = setting_of(field), getattr(value, field.name)
        if not known.identifies or own is None or known.key == "network":
            continue
        if dataclasses.is_dataclass(own):
            found |= _flat(own, f"{prefix}{known.key}.")
        elif known.is_old or own != known.before:
            found[f"{prefix}{known.key}"] = plain({"": own})[""]
    return found


def _sizes(settings: TrainSettings) -> dict[str, Any] | None:
    """Of the networks by stable keys, those too that were not there when they were recorded."""
    from sgrl.models.methods import OURS, config_from, get_method  # which need torch

    network = settings.preset_sizes() if settings.network is None else settings.network
    if network is not None and settings.method in OURS:
        preset = get_method(settings.method).config(settings.preset)
        network = _flat(config_from(preset, network), "")
    sizes: dict[str, Any] | None = plain(network)
    return sizes
