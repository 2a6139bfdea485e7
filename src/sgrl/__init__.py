"""Subequivariant graph reinforcement learning in 3D: one policy for many bodies.

Importing it registers the environments with Gymnasium; torch is imported only by what needs it.
"""

from importlib.metadata import PackageNotFoundError, version

from sgrl.envs import make_env, make_vec, register_envs
from sgrl.morphology import Morphology, body_names, get_body, get_collection

try:
    __version__ = version("sgrl")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0"

register_envs()

__all__ = [
    "Morphology",
    "__version__",
    "body_names",
    "get_body",
    "get_collection",
    "make_env",
    "make_vec",
]
