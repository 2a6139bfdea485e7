"""Subequivariant graph reinforcement learning in 3D: one policy for many bodies.

Importing it registers the environments with Gymnasium; torch is imported only by what needs it.
"""

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
    from sgrl.models.plugins import trust
    from sgrl.training.policy import load_policy
    from sgrl.viewer.live import view


def __getattr__(name: str) -> Any:
    """What needs torch, imported when it is first asked for."""
    if name == "load_policy":
        from sgrl.training.policy import load_policy

        return load_policy
    if name == "register_method":
        from sgrl.models.methods import register_method

        return register_method
    if name == "trust":
        from sgrl.models.plugins import trust

        return trust
    if name == "view":
        from sgrl.viewer.live import view

        return view
    raise AttributeError(f"module 'sgrl' has no attribute {name!r}")


__all__ = [
    "Morphology",
    "__version__",
    "body_names",
    "get_body",
    "get_collection",
    "load_policy",
    "make_env",
    "make_vec",
    "register_method",
    "trust",
    "view",
]
