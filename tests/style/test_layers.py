"""Data flows one way: a package imports only from those before it."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.style.picture import BLOCK, PAGE, mermaid
from tests.style.source import BASE, FILES, imports, module_name, package

LAYERS = (
    BASE,
    {"morphology"},
    {"envs"},
    {"symmetry"},
    {"models"},
    {"algorithms"},
    {"training"},
    {"experiments"},
    {"cluster", "report", "viewer"},
    {"demo", "sgrl"},
    {"cli"},
    {"__main__"},
)
"""From what everything may use to what nothing may."""
EXCEPTIONS = {
    ("training", "cluster"): "rollouts on Ray are chosen by a setting of the training",
    ("experiments", "cluster"): "grids on Ray are chosen by an option of the grid",
    ("report", "sgrl"): "the version that wrote the page",
}
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def test_every_package_has_its_layer() -> None:
    assert {package(module_name(file)) for file in FILES} <= set(RANK)


def test_a_package_imports_only_from_those_before_it() -> None:
    broken = [
        f"{one.importer} imports {one.imported}"
        for one in imports()
        if RANK[package(one.importer)] < RANK[package(one.imported)]
        and (package(one.importer), package(one.imported)) not in EXCEPTIONS
        and package(one.importer) != "sgrl"
    ]
    assert not broken


def test_each_exception_is_one_and_is_imported_late() -> None:
    crossing = {(package(one.importer), package(one.imported)): one.late for one in imports()}
    assert set(EXCEPTIONS) <= set(crossing)
    early = {
        (package(one.importer), package(one.imported))
        for one in imports()
        if not one.late and RANK[package(one.importer)] < RANK[package(one.imported)]
    }
    assert early <= {("report", "sgrl")}


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for one in imports():
        if not one.late and one.importer != one.imported:
            graph.setdefault(one.importer, set()).add(one.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_picture_is_current() -> None:
    shown = BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0] == mermaid(), "make pages"
