"""The tutorial notebook is valid, and its code runs from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (the extra `dev`)")

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorials" / "agent.ipynb"


def test_the_notebook_is_valid_and_small() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert NOTEBOOK.stat().st_size < 100_000
    assert not any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))


def test_the_links_of_the_notebook_lead_somewhere() -> None:
    text = "".join(cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells)
    targets = re.findall(r"\]\(([^)#]+\.md)", text)
    assert len(targets) >= 3
    assert all((NOTEBOOK.parent / target).is_file() for target in targets)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTORIAL_STEPS", "20000")
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOK.parents[2]))
    matplotlib.use("agg")
    names: dict[str, Any] = {}
    for number, cell in enumerate(nbformat.read(NOTEBOOK, as_version=4).cells):
        if cell.cell_type == "code":
            exec(compile(cell.source, f"cell {number}", "exec"), names)
    assert set(names["agents"]) >= {"trained with DReST", "trained with the default reward"}
    assert sum(names["lengths"].values()) == 1000
    assert abs(names["lengths"][4] / 1000 - names["agent"].probabilities(names["level"])[4]) < 0.08
    assert len(list((tmp_path / "pictures").glob("*.png"))) == 1
    assert "trained with the default reward  usefulness" in capsys.readouterr().out
