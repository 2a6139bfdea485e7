"""Subequivariant graph reinforcement learning in 3D: one policy for many bodies.

Importing it registers the environments with Gymnasium; torch is imported only by what needs it.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from sgrl.envs import make_env, make_vec, register_envs
from sgrl.morphology import Morphology, body_names, get_body, get_collection

try:
    __version__ = version("sgrl")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0"

register_envs()

if TYPE_CHECKING:
    from sgrl.models.methods import register_method
    from sgrl.plugins import trust
    from sgrl.training.evaluate import evaluate
    from sgrl.training.loop import train
    from sgrl.training.policy import load_policy
    from sgrl.training.settings import TrainSettings
    from sgrl.viewer.clip import video
    from sgrl.viewer.live import view

_NEEDS_TORCH = {
    "TrainSettings": "sgrl.training.settings",
    "evaluate": "sgrl.training.evaluate",
    "load_policy": "sgrl.training.policy",
    "register_method": "sgrl.models.methods",
    "train": "sgrl.training.loop",
    "trust": "sgrl.plugins",
    "video": "sgrl.viewer.clip",
    "view": "sgrl.viewer.live",
}
"""Names of this module by the module that has them, imported when one is first asked for."""


def __getattr__(name: str) -> Any:
    if name in _NEEDS_TORCH:
        return getattr(import_module(_NEEDS_TORCH[name]), name)
    raise AttributeError(f"module 'sgrl' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Morphology",
    "TrainSettings",
    "__version__",
    "body_names",
    "evaluate",
    "get_body",
    "get_collection",
    "load_policy",
    "make_env",
    "make_vec",
    "register_method",
    "train",
    "trust",
    "video",
    "view",
]
