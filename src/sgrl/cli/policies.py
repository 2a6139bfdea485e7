"""`sgrl policies`: what comes with the package."""

from __future__ import annotations

import sys
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table


def policies_command(name: Annotated[str | None, tyro.conf.Positional] = None) -> None:
    """List what the policies that come with the package can do, or print the card of one.

    Args:
        name: Policy to tell about; all of them, a line for each family, if none is given.
    """
    from sgrl.training.card import (
        OVERVIEW,
        OVERVIEW_LEGEND,
        OVERVIEW_WORDS,
        format_card,
        overview,
    )
    from sgrl.training.published import list_published

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
    for index, column in enumerate(OVERVIEW):
        table.add_column(
            column,
            justify="left" if index < OVERVIEW_WORDS else "right",
            no_wrap=index < OVERVIEW_WORDS,
        )
    previous = None
    for policy, *cells in overview(cards):
        if previous not in (None, policy):
            table.add_section()
        table.add_row("" if policy == previous else policy, *cells)
        previous = policy
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(OVERVIEW_LEGEND)
