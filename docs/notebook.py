"""Run the notebook of docs/tutorials from top to bottom, and store what it shows: python docs/notebook.py

It needs the extra `docs`. A test compares the numbers that are stored with those of today.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parent / "tutorials" / "agent.ipynb"


def main() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}, record_timing=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # not the version that happens to be here
    for output in (each for cell in notebook.cells for each in cell.get("outputs", [])):
        if "text/html" in output.get("data", {}):
            output["data"].pop("image/png", None)  # which is within it
    nbformat.write(notebook, NOTEBOOK)
    print(f"{NOTEBOOK}: {NOTEBOOK.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
