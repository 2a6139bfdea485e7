"""Where a policy is found: a run, `RUN@best` or `RUN@STEPS`."""

from __future__ import annotations

from pathlib import Path

from sgrl.command_line import parse_whole

BEST = "best"
"""The folder of a run's best checkpoint, beside `checkpoints`, and what follows the @."""


def split_place(where: str | Path) -> tuple[Path, str | int | None]:
    """A run and which of its checkpoints is meant: `RUN@best`, `RUN@STEPS`, or neither."""
    path = Path(where)
    if (path / "settings.json").is_file():
        return path, None
    name, at, which = path.name.rpartition("@")
    if not at:
        return path, None
    try:
        return path.with_name(name), BEST if which == BEST else parse_whole(which)
    except ValueError:
        raise ValueError(
            f"{where}: after the @ comes best or a number of steps, not {which!r}"
        ) from None


def join_place(run: Path, which: str | int | None) -> Path:
    """What `split_place` was given."""
    return run if which is None else run.with_name(f"{run.name}@{which}")


def describe_place(folder: Path) -> str:
    """Which checkpoint a folder is, in a few words."""
    kind = "its best checkpoint" if folder.parent.name == BEST else "the checkpoint"
    return f"{kind} at {int(folder.name):,} steps"
