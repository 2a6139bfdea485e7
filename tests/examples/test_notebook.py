"""The notebook runs from the first cell to the last, with a training of a second."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "one_policy_many_bodies.ipynb"
LONG, BRIEF = "MINUTES = 2\n", "MINUTES = 0.05\n"


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


@pytest.mark.nightly
def test_it_runs(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (training,) = (cell for cell in notebook.cells if cell.source.startswith(LONG))
    training.source = training.source.replace(LONG, BRIEF)
    client = nbclient.NotebookClient(
        notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    pictures = sum(
        "image/png" in output.get("data", {})
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    assert pictures == 5
