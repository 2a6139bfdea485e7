"""Weights by the names of the parts of a learner: `actor.…`, `critic.…`, `normalizer.…`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

OLD_PREFIXES = {
    "normaliser.": "normalizer.",
    "spread.": "std.",
    "returns.": "return_normalizer.",
}
"""How names of weights began in earlier runs, and how they begin now."""
STD_HEAD = "read_std"
"""The layer of a Gaussian actor that a deterministic one has not (`models.network.std_layer`)."""


def current_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights under the names of today, whenever they were recorded."""
    return {_current(name): value for name, value in weights.items()}


def _current(name: str) -> str:
    prefix, dot, rest = name.partition(".")
    return OLD_PREFIXES.get(prefix + dot, prefix + dot) + rest


def weights_of(parts: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """The parts' weights, copied to the CPU, named `part.…`."""
    return {
        f"{part}.{name}": value.detach().to("cpu", copy=True).contiguous()
        for part, module in parts.items()
        for name, value in module.state_dict().items()
    }


def load_weights(parts: Mapping[str, nn.Module], weights: Mapping[str, Tensor]) -> None:
    """Take over what `weights_of` gave.

    ValueError, and nothing changed, if it is of another method or size.
    """
    _check(parts, weights)
    for part, module in parts.items():
        names = module.state_dict().keys()
        module.load_state_dict({name: weights[f"{part}.{name}"] for name in names})


def load_portable(
    parts: Mapping[str, nn.Module], weights: Mapping[str, Tensor], optional: Sequence[str] = ()
) -> list[str]:
    """Take over the weights of another run that fit, and return the parts that began anew.

    Each of the `optional` parts may be missing or of another algorithm; the others, and those that
    are taken over, must fit. The head of a Gaussian actor is left out where the actor has none, and
    stays new where the weights have none. ValueError, and nothing changed, if a part does not fit.
    """
    named = current_names(weights)
    if "normalizer" not in parts and any(name.startswith("normalizer.") for name in named):
        raise ValueError("these weights need observations normalized by statistics of theirs")
    fitting: dict[str, nn.Module] = {}
    chosen: dict[str, Tensor] = {}
    anew = []
    for part, module in parts.items():
        prefix = f"{part}."
        own = weights_of({part: module})
        found = {name: value for name, value in named.items() if name.startswith(prefix)}
        if part == "actor":
            head = {name: value for name, value in own.items() if _is_std_head(name)}
            if head and not any(map(_is_std_head, found)):
                found |= head
                anew.append("std")
            found = {n: value for n, value in found.items() if n in own or not _is_std_head(n)}
        if part in optional and found.keys() != own.keys():
            anew.append(part)
            continue
        fitting[part] = module
        chosen |= found
    load_weights(fitting, chosen)
    return anew


def is_gaussian(weights: Mapping[str, Tensor]) -> bool:
    """Whether they are those of a Gaussian actor, whose standard deviation depends on the state."""
    return any(map(_is_std_head, weights))


def _is_std_head(name: str) -> bool:
    return STD_HEAD in name.split(".")


def _check(parts: Mapping[str, nn.Module], weights: Mapping[str, Tensor]) -> None:
    own = {f"{p}.{n}": value for p, m in parts.items() for n, value in m.state_dict().items()}
    if differing := sorted(own.keys() ^ weights.keys()):
        raise ValueError(f"these weights are of another method or size: {_some(differing)}")
    for name, value in own.items():
        if value.shape != weights[name].shape:
            raise ValueError(
                f"these weights are of another size or body: {name} is "
                f"{tuple(weights[name].shape)}, not {tuple(value.shape)}"
            )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} only on one side"
