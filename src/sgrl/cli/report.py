"""`sgrl report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from sgrl.markup import one_line
from sgrl.plugins import TrustOption


def report_command(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")],
    *,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html"),
    title: str | None = None,
    trust: TrustOption = (),
) -> None:
    """Write one page about runs: learning curves, tables, symmetry, replays; it opens offline.

    Runs that differ only by their seed are drawn as one curve. What `sgrl eval` wrote into a run's
    folder, and replays and videos that lie there, are shown too, evaluations of policies beside it.

    Args:
        runs: Folders of runs, their names in runs, or names of policies that ship, in any mix; what
            has nothing to show is left out.
        out: The file to write, .html.
        title: What stands at its top.
    """
    # Here, because the certificates need torch.
    from sgrl.report.page import write_report

    count = write_report(
        runs, out, title, left_out=lambda why: print(f"left out: {one_line(why)}"), trust=trust
    )
    print(f"wrote {out}: {count} run{'s' if count > 1 else ''}, {out.stat().st_size / 1e6:.1f} MB")
