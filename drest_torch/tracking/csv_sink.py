"""A table for pandas in the run's folder, ``metrics.csv``, with one line per step and metric.

The set of metrics can change during a run. A file with one line per metric can accept a new one at any time.
``pandas.read_csv(path).pivot(index="step", columns="name", values="value")`` gives one with a column for each.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping

from drest_torch.tracking.sinks import Lines


class CsvSink(Lines):
    """A file of lines ``step,name,value``; a value that is not finite is left empty."""

    name = "metrics.csv"
    head = "step,name,value\n"

    def text(self, row: Mapping[str, float]) -> str:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        for name, value in row.items():
            if name != "step":
                text = ""
                if math.isfinite(value):
                    text = repr(float(value))
                writer.writerow((int(row["step"]), name, text))
        return lines.getvalue()


Logger = CsvSink
