"""A logger that writes ``metrics.csv`` in the run's folder, with one line per step and metric.

The long format accepts new metrics at any time during a run.
``pandas.read_csv(path).pivot(index="step", columns="name", values="value")`` returns a column per metric.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping

from drest_torch.tracking.sinks import Lines


class CsvSink(Lines):
    """A file of lines ``step,name,value``; values that are not finite are left empty."""

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
