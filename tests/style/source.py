"""The source as trees: what it imports, what is public in it, and its words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sgrl"
FILES = sorted(SOURCE.rglob("*.py"))
BASE = {file.stem for file in SOURCE.glob("*.py")} - {
    "__init__", "__main__", "demo", "symmetry",
}  # fmt: skip
"""Modules beside the packages that everything may use."""
NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Import(NamedTuple):
    """A line that imports a module of the package."""

    importer: str
    imported: str
    late: bool
    """Inside a function, or only for types."""


def module_name(file: Path) -> str:
    """`sgrl.envs.single` for its file."""
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}


@cache
def tree(file: Path) -> ast.Module:
    """The file, parsed once."""
    return ast.parse(file.read_text(encoding="utf-8"))


def package(module: str) -> str:
    """`envs` for `sgrl.envs.single`, `cores` for `sgrl.cores`, and for `sgrl` itself `sgrl`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def imports() -> Iterator[Import]:
    """Every import of a module of the package by another."""
    for importer, file in MODULES.items():
        top = {id(node) for node in tree(file).body}
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                imported = name if name in MODULES else name.rpartition(".")[0]
                if imported in MODULES:
                    yield Import(importer, imported, id(node) not in top)


def public(file: Path) -> Iterator[tuple[str, ast.AST, str | None]]:
    """Each public module, class, function, method and constant of a file: name, node, docstring."""
    yield module_name(file), tree(file), ast.get_docstring(tree(file))
    yield from _public_in(tree(file), module_name(file))


def _public_in(
    parent: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, ast.AST, str | None]]:
    for node, following in zip(parent.body, [*parent.body[1:], None], strict=True):
        match node, following:
            case ((ast.ClassDef(name=name) | ast.FunctionDef(name=name)), _):
                if not name.startswith("_"):
                    yield f"{prefix}.{name}", node, ast.get_docstring(node)
                    if isinstance(node, ast.ClassDef):
                        yield from _public_in(node, f"{prefix}.{name}")
            case (
                (ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)])),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                if not name.startswith("_"):
                    yield f"{prefix}.{name}", node, text
