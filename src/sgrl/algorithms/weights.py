"""Weights of a learner's parts by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn


def weights_of(parts: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Copies of the parts' weights on the CPU, named `part.…`."""
    return {
        f"{part}.{name}": value.detach().to("cpu", copy=True).contiguous()
        for part, module in parts.items()
        for name, value in module.state_dict().items()
    }


def load_weights(parts: Mapping[str, nn.Module], weights: Mapping[str, Tensor]) -> None:
    """Take over what `weights_of` gave.

    ValueError, and nothing changed, if it is of another method or size.
    """
    own = {f"{p}.{n}": value for p, m in parts.items() for n, value in m.state_dict().items()}
    if differing := sorted(own.keys() ^ weights.keys()):
        raise ValueError(f"these weights are of another method or size: {_some(differing)}")
    for name, value in own.items():
        if value.shape != weights[name].shape:
            raise ValueError(
                f"these weights are of another size or body: {name} is "
                f"{tuple(weights[name].shape)}, not {tuple(value.shape)}"
            )
    for part, module in parts.items():
        names = module.state_dict().keys()
        module.load_state_dict({name: weights[f"{part}.{name}"] for name in names})


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} only on one side"
