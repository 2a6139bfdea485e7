"""`sgrl envs`: the bodies as a table or a picture."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sgrl.morphology import TABLE, compile_model, get_body


def envs_command(gallery: Path | None = None) -> None:
    """List the 29 bodies, or draw them all in one picture.

    Args:
        gallery: Write a PNG of all bodies with their names here.
    """
    if gallery is not None:
        from sgrl.viewer.gallery import write_gallery

        write_gallery(gallery)
        print(f"wrote {gallery}")
        return
    table = Table(title="Bodies: gymnasium.make('sgrl/<body>-v1'), or -v2 for near targets")
    table.add_column("body", no_wrap=True)
    for column in ("limbs", "hinges", "actuated motors", "mass (kg)"):
        table.add_column(column, justify="right")
    table.add_column("collection", no_wrap=True)
    table.add_column("split", no_wrap=True)
    for entry in TABLE:
        body = get_body(entry.name)
        table.add_row(
            entry.name,
            str(body.num_limbs),
            str(body.action_dim),
            str(body.actuated.sum()),
            f"{compile_model(body).body_mass.sum():.1f}",
            f"3d_{entry.family}++",
            entry.split.replace("_", "-"),
        )
    # Wide enough for every name even where the output is not a terminal.
    Console(width=None if sys.stdout.isatty() else 120).print(table)
