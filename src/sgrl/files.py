"""Output files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writable(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, moved there when the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    draft = path.with_name(f".{path.stem}.draft{path.suffix}")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
