"""How the command line reads options: what all commands have in common."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

T = TypeVar("T")

BodiesOption = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]", aliases=["--body"])
]
"""`--bodies`, or `--body` for who names one."""

REGISTRY = ConstructorRegistry()


@REGISTRY.primitive_rule
def _short_numbers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """Whole numbers may be written as 1e6."""
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: parse_whole(words[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )


def parse_whole(text: str) -> int:
    """A whole number, as 20000, 20_000 or 2e4; ValueError if it is none."""
    for read in (int, float):
        with suppress(ValueError):
            if (value := read(text)) == value // 1:
                return int(value)
    raise ValueError(f"{text} is not a whole number")


def read_options(
    target: Callable[..., T], prog: str, arguments: Sequence[str], description: str | None = None
) -> T:
    """Call a function or a class with what the arguments say, which are checked against its types;
    wrong ones end the process with a message."""
    if inspect.isfunction(target):
        target = _with_whole_paragraphs(target)
    result: T = tyro.cli(
        target, prog=prog, args=arguments, description=description, registry=REGISTRY
    )
    return result


def _with_whole_paragraphs(command: Callable[..., T]) -> Callable[..., T]:
    """The same function, with the text of each argument on one line: tyro keeps line breaks."""

    @functools.wraps(command)
    def called(*values: object, **named: object) -> T:
        return command(*values, **named)

    del called.__wrapped__  # whose text tyro would read
    called.__annotations__ = typing.get_type_hints(command, include_extras=True)
    called.__signature__ = inspect.signature(command)  # type: ignore[attr-defined]
    called.__doc__ = re.sub(r"\n {12}", " ", command.__doc__ or "")
    return called
