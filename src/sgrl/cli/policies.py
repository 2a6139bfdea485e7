"""`sgrl policies`: what comes with the package."""

from __future__ import annotations

import sys
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table


def policies_command(name: Annotated[str | None, tyro.conf.Positional] = None) -> None:
    """List the policies that come with the package, or print the card of one.

    Args:
        name: Policy to tell about; all, a line each, if none is given.
    """
    from sgrl.training.published import format_card, list_published

    cards = list_published()
    if name is not None:
        if name not in cards:
            known = ", ".join(cards) or "none"
            raise ValueError(f"there is no policy {name!r} in the package; there are {known}")
        print(format_card(cards[name]))
        return
    if not cards:
        print("no policy comes with this package; train one, or see sgrl publish")
        return
    table = Table(title="Policies: sgrl.load_policy('<name>'), sgrl view <name>")
    for column in ("policy", "method", "algorithm"):
        table.add_column(column, no_wrap=True)
    for column in ("bodies", "steps", "mean return v1: seen", "unseen"):
        table.add_column(column, justify="right")
    for title, card in cards.items():
        means = []
        for seen in (True, False):
            far = [row for row in card["results"] if (row["variant"], row["seen"]) == ("v1", seen)]
            mean = sum(row["total_reward"] for row in far) / max(1, len(far))
            means.append(f"{mean:,.0f}" if far else "")
        about = (title, card["method"], card["algorithm"], str(len(card["bodies"])))
        table.add_row(*about, f"{card['steps']:,}", *means)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
