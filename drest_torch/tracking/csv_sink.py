"""A table for pandas in the run's folder, ``metrics.csv``, with one line per step and metric.

The set of metrics can change during a run. A file with one line per metric can accept a new one at any time.
``pandas.read_csv(path).pivot(index="step", columns="name", values="value")`` gives one with a column for each.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from typing import Any

from drest_torch.files import write_whole
from drest_torch.tracking.sinks import RunInfo, Sink


class CsvSink(Sink):
    """A file of lines ``step,name,value``; a value that is not finite is left empty.

    The lines of a step are written at once, and then the file is closed. If a run is killed, its last line can be
    incomplete: only lines with an end are valid. A resumed run rewrites the file up to its checkpoint.
    """

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        self.path = run.folder / "metrics.csv"
        write_whole(self.path, _lines([("step", "name", "value")]) + b"".join(map(_of_step, run.earlier)))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(_of_step({"step": step, **metrics}))


def _of_step(row: Mapping[str, float]) -> bytes:
    values = {name: repr(float(value)) if math.isfinite(value) else "" for name, value in row.items() if name != "step"}
    return _lines([(int(row["step"]), *item) for item in values.items()])


def _lines(rows: list[tuple[Any, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


Logger = CsvSink
