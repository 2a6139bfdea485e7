"""A run's settings changed by hand."""

from __future__ import annotations

import json
from typing import Any

from sgrl.training.run import Run


def edit_settings(run: Run, **changes: Any) -> None:
    """As someone does who knows that the checksum has to go."""
    recorded = json.loads(run.settings_file.read_text(encoding="utf-8"))
    recorded.pop("sha256", None)
    run.settings_file.write_text(json.dumps(recorded | changes), encoding="utf-8")
