"""The picture in CONTRIBUTING.md of which package imports which: `make pages`."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

from tests.style.source import BASE, ROOT, imports, package

PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"(?<=```mermaid\n).*?(?=```)", re.DOTALL)
LEFT_OUT = {*BASE, "sgrl", "__main__", "demo"}
"""What everything uses, and what only names things."""


def edges() -> set[tuple[str, str]]:
    """Which package imports which, less what follows from the others."""
    users: dict[str, set[str]] = {}
    for one in imports():
        pair = (package(one.importer), package(one.imported))
        if pair[0] != pair[1] and not LEFT_OUT & set(pair):
            users.setdefault(pair[0], set()).add(pair[1])
    # Rollouts and grids on Ray are imported when they are asked for.
    for importer in ("training", "experiments"):
        users[importer].discard("cluster")
    reach: dict[str, set[str]] = {}
    for name in TopologicalSorter(users).static_order():
        direct = users.get(name, set())
        reach[name] = direct.union(*(reach[other] for other in direct))
    return {
        (name, other)
        for name, direct in users.items()
        for other in direct
        if not any(other in reach[third] for third in direct)
    }


def mermaid() -> str:
    """The picture in the language that the forge draws."""
    arrows = "".join(f"  {imported} --> {importer}\n" for importer, imported in sorted(edges()))
    return f"flowchart LR\n{arrows}"


def main() -> None:
    """Write the picture."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda _: mermaid(), text), encoding="utf-8")


if __name__ == "__main__":
    main()
