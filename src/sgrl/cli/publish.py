"""`sgrl publish`: weights and a card to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from sgrl.plugins import TrustOption


def publish_command(
    run: Annotated[Path, tyro.conf.Positional],
    *,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    episodes: int = 100,
    threads: int = 0,
    allow_uncommitted: bool = False,
    trust: TrustOption = (),
) -> None:
    """Make a run's policy fit to be passed on: its weights, without the rest, and a card.

    The card has the stages that led to it with their commands, commits, steps and core-hours, those
    of its teachers too, and what it does on what it was trained on, for several bodies on all of
    their families: returns with far and near targets beside the specialists', what share of
    episodes lasts, metres gained also by start angle, and how well it knows mirror images.

    Args:
        run: Folder of the run, or its name in runs.
        out: New folder; its name is the policy's.
        episodes: Episodes of each body that the card reports on.
        threads: Threads of the physics; 0 for all cores.
        allow_uncommitted: Publish although code that trained the policy, or this code, is in no
            commit.
    """
    from sgrl.training import published
    from sgrl.training.policy import act_on_one_thread

    act_on_one_thread()
    published.publish(
        run,
        out,
        episodes=episodes,
        threads=threads,
        trust=trust,
        allow_uncommitted=allow_uncommitted,
    )
    print(f"wrote {out}; see {out / 'card.md'}")
