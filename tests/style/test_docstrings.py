"""Every public name has a docstring, and each is a sentence that stands alone in the reference."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.style.allowed import Counts, beyond, collect
from tests.style.source import FILES, SOURCE, public

LEANING = ("Of", "As", "For", "From")
"""Words at the start of a docstring that is about something that the reader does not see."""


def find() -> Counts:
    pairs = [(file.relative_to(SOURCE).as_posix(), what) for file in FILES for what in _in(file)]
    return collect(pairs)


def _in(file: object) -> Iterator[str]:
    inherited: set[str] = set()
    for name, node, text in public(file):  # type: ignore[arg-type]
        owner = name.rpartition(".")[0]
        if isinstance(node, ast.ClassDef) and (node.bases or node.decorator_list):
            inherited.add(name)
        if text is None:
            # What overrides a method says the same as what it overrides.
            if not (owner in inherited and isinstance(node, ast.FunctionDef)):
                yield "no docstring"
        elif text.split(maxsplit=1)[0] in LEANING:
            yield "begins with Of, As, For or From"


def test_public_names_have_docstrings_that_stand_alone() -> None:
    assert not beyond("docstrings")
