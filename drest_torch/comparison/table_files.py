"""Files of tables: tidy CSV and JSON, LaTeX and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drest_torch.comparison.aggregation import MEAN_OVER_SEEDS, Aggregation
from drest_torch.comparison.documents import FORMATS, document
from drest_torch.comparison.frames import frame
from drest_torch.comparison.records import RunRecord
from drest_torch.files import write_json, write_text


def write_table(
    path: Path, runs: Sequence[RunRecord], table: str, choice: Aggregation = MEAN_OVER_SEEDS, across: str | None = None
) -> None:
    """Write a table of runs in the format of the file's ending."""
    suffix = path.suffix.lower()
    if suffix in FORMATS:
        write_text(path, FORMATS[suffix](document(runs, table, choice, across)))
        return
    values = frame(runs, table, choice, across)
    if suffix == ".csv":
        write_text(path, values.to_csv(index=False, lineterminator="\n"))
        return
    rows = values.astype(object).where(values.notna(), None)
    write_json(path, rows.to_dict("records"))
