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
