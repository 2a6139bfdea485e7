"""Nested state as tensors and JSON: what `Checkpoint.state` is written as, and read from.

Dicts, lists, tuples, numbers, strings and None become JSON. A tensor or an array becomes the name
under which it lies in a safetensors file. What JSON cannot say is an object with one key that
begins with `$`:

    {"$tensor": NAME}  {"$array": NAME}  {"$tuple": [...]}  {"$dict": [[KEY, VALUE], ...]}
    {"$strings": [...], "dtype": "<U7", "shape": [...]}
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

MOST_CHARACTERS = 10_000_000
"""Characters that an array of strings may have."""


def encode_state(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """JSON values and the tensors that they name; TypeError for what cannot be written."""
    import numpy as np
    import torch

    tensors: dict[str, Tensor] = {}

    def place(path: str, tensor: Tensor) -> str:
        name = path or "."
        while name in tensors:
            name += "'"
        # A copy: a file of tensors refuses those that share memory.
        tensors[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        return name

    def encode(value: Any, path: str) -> Any:
        match value:
            case None | bool() | str():
                return value
            case np.generic():
                return encode(value.item(), path)
            case int() | float():
                return value
            case torch.Tensor():
                return {"$tensor": place(path, value)}
            case np.ndarray() if value.dtype.kind == "U":
                return {
                    "$strings": value.ravel().tolist(),
                    "dtype": value.dtype.str,
                    "shape": list(value.shape),
                }
            case np.ndarray():
                # A copy: what torch shares must be writable.
                return {"$array": place(path, torch.from_numpy(np.array(value, order="C")))}
            case dict():
                if all(isinstance(key, str) and not key.startswith("$") for key in value):
                    return {key: encode(one, f"{path}/{key}") for key, one in value.items()}
                for key in value:
                    if not isinstance(key, (str, int)):
                        raise TypeError(f"a key of {path or 'the state'} is {key!r}")
                pairs = [[key, encode(one, f"{path}/{key}")] for key, one in value.items()]
                return {"$dict": pairs}
            case list():
                return [encode(one, f"{path}/{i}") for i, one in enumerate(value)]
            case tuple():
                return {"$tuple": [encode(one, f"{path}/{i}") for i, one in enumerate(value)]}
        raise TypeError(f"{path or 'the state'} is a {type(value).__name__}")

    return encode(state, ""), tensors


def decode_state(value: Any, tensors: dict[str, Tensor]) -> Any:
    """What `encode_state` was given; ValueError if it gave something else than this."""
    left = dict(tensors)

    def take(name: Any) -> Tensor:
        if not isinstance(name, str) or name not in left:
            raise ValueError(f"there is no tensor {name!r}, or it is named twice")
        return left.pop(name)

    def decode(value: Any) -> Any:
        match value:
            case {"$tensor": name, **rest} if not rest:
                return take(name)
            case {"$array": name, **rest} if not rest:
                return take(name).numpy()
            case {"$strings": list(words), "dtype": str(dtype), "shape": list(shape), **rest} if (
                not rest
            ):
                return _strings(words, dtype, shape)
            case {"$tuple": list(values), **rest} if not rest:
                return tuple(decode(one) for one in values)
            case {"$dict": list(pairs), **rest} if not rest:
                return _pairs([[key, decode(one)] for key, one in pairs])
            case dict():
                if wrong := [key for key in value if key.startswith("$")]:
                    raise ValueError(f"{wrong[0]} is no kind of value, or not of this shape")
                return {key: decode(one) for key, one in value.items()}
            case list():
                return [decode(one) for one in value]
        return value

    found = decode(value)
    if left:
        raise ValueError(f"the tensor {min(left)!r} belongs nowhere")
    return found


def _strings(words: list[Any], dtype: str, shape: list[Any]) -> Any:
    right = (
        all(isinstance(word, str) for word in words)
        and all(isinstance(length, int) and length >= 0 for length in shape)
        and math.prod(shape) == len(words)
        and dtype[:2] in ("<U", ">U")
        and dtype[2:].isascii()
        and dtype[2:].isdigit()
        and len(dtype) < 8
        and max(map(len, words), default=0) <= int(dtype[2:]) <= MOST_CHARACTERS // (len(words) + 1)
    )
    if not right:
        raise ValueError("an array of strings is not one")
    import numpy as np

    return np.array(words, dtype).reshape(shape)


def _pairs(pairs: list[list[Any]]) -> dict[str | int, Any]:
    found: dict[str | int, Any] = {}
    for key, value in pairs:
        if not isinstance(key, (str, int)) or isinstance(key, bool) or key in found:
            raise ValueError(f"{key!r} is no key, or there twice")
        found[key] = value
    return found
