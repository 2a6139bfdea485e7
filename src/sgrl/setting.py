"""What is known of a settings field beside its type, default and docstring. Imports no torch."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")
METADATA = "sgrl"
"""Where a field's `Setting` lies in its metadata."""
OLD: Final = "as old as runs"
"""Stands for the value before a field existed where there were no runs then."""


@dataclass(frozen=True)
class Setting:
    """What a field of a settings dataclass stands for."""

    key: str
    """Names the field for ever: it stays when the field is renamed."""
    identifies: bool = True
    """Whether a run with another value is another run; if not, the field is housekeeping."""
    may_change: bool = False
    """Whether a resumed run may have another value than the one recorded."""
    before: Any = OLD
    """The value that runs had before the field existed; `OLD` for a field as old as they are."""
    least: float | None = None
    """Smallest value; None where there is no bound."""
    most: float | None = None
    """Largest value."""
    above: float | None = None
    """The value must be larger than this."""

    @property
    def is_old(self) -> bool:
        """Whether the field is as old as runs are."""
        return self.before is OLD

    def problem(self, value: Any, *, whole: bool = False) -> str | None:
        """What is wrong with a value, after the field's name; None if it may stand."""
        bounded = any(bound is not None for bound in (self.least, self.most, self.above))
        if not bounded or value is None:
            return None
        if isinstance(value, (tuple, list)):
            return next(filter(None, (self.problem(item, whole=whole) for item in value)), None)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"must be a number, not {value!r:.60}"
        if whole and not isinstance(value, int):
            return f"must be a whole number, not {value!r}"
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        above = -math.inf if self.above is None else self.above
        if least <= value <= most and above < value:  # false for what is not a number
            return None
        return f"must {self._range()}, not {value!r}"

    def bounds(self) -> str:
        """The bounds in a few characters, to show; nothing if there are none."""
        if self.above is not None:
            return f"> {self.above:g}" + ("" if self.most is None else f", ≤ {self.most:g}")
        shown = (None if one is None else f"{one:g}" for one in (self.least, self.most))
        least, most = shown
        if least is not None and most is not None:
            return f"{least} to {most}"
        return "" if least is most is None else f"≤ {most}" if least is None else f"≥ {least}"

    def _range(self) -> str:
        least, most, above = (
            None if bound is None else f"{bound:,}" for bound in (self.least, self.most, self.above)
        )
        if above is not None:
            return f"be above {above}" + ("" if most is None else f" and at most {most}")
        if least is not None and most is not None:
            return f"lie between {least} and {most}"
        return f"be at least {least}" if most is None else f"be at most {most}"


def setting(
    default: T | Callable[[], T],
    *,
    key: str,
    identifies: bool = True,
    may_change: bool = False,
    before: Any = OLD,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
) -> T:
    """A dataclass field that says what `Setting` knows; a `default` that is a class is called."""
    known = Setting(key, identifies, may_change, before, least, most, above)
    metadata = {METADATA: known}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def setting_of(field: dataclasses.Field[Any]) -> Setting:
    """What a field was made with; a plain field identifies the run by its own name."""
    known = field.metadata.get(METADATA)
    return known if isinstance(known, Setting) else Setting(field.name)


def settings_of(config: Any) -> dict[str, Setting]:
    """What is known of each field of a settings dataclass or of a value of one, by field name."""
    return {field.name: setting_of(field) for field in dataclasses.fields(config)}


def texts_of(config: type) -> dict[str, str]:
    """The string below each field of a dataclass and of its bases, on one line."""
    texts = {}
    for one in filter(dataclasses.is_dataclass, reversed(config.__mro__)):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(body, ast.ClassDef)
        for node, following in zip(body.body, body.body[1:], strict=False):
            match node, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
    return texts


class SettingsError(ValueError):
    """All that is wrong with settings, each in a line."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def check_bounds(config: Any, prefix: str = "") -> None:
    """Check every number of a settings value against its bounds.

    SettingsError has a line for each that is out of them; `prefix` is put before the field's name.
    """
    lines = []
    for field in dataclasses.fields(config):
        value, whole = getattr(config, field.name), "float" not in str(field.type)
        if problem := setting_of(field).problem(value, whole=whole):
            lines.append(f"{prefix}{field.name} {problem}")
    if lines:
        raise SettingsError(lines)
