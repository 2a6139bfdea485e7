"""What a replay buffer may take."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path


def free_bytes(folder: Path | None) -> int:
    """Bytes that are free in memory or, with a folder, on its disk; files in it count as free."""
    if folder is not None:
        replaced = sum(path.stat().st_blocks * 512 for path in folder.iterdir() if path.is_file())
        return shutil.disk_usage(folder).free + replaced
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    if found:
        return 1024 * int(found[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_fits(needed: int, folder: Path | None, what: str) -> None:
    """ValueError if so many bytes don't fit in memory or, with a folder, on its disk."""
    if needed > (free := free_bytes(folder)):
        where = "memory" if folder is None else f"the disk of {folder}"
        raise ValueError(
            f"{what} takes {needed / 1e9:.2f} GB and does not fit in {where}, which has "
            f"{free / 1e9:.2f} GB; take a smaller buffer_size, checkpoint_every or keep"
        )
