"""Tables of a report, from the rows of a study.

A cell is a function from values [n] to text: `mean(3)`, `mean_sd(3)`, `interval()`, `at_least(0.99)`, or a function of
the study. `marked` puts ✓, ◐ or ✗ before a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.statistics.intervals import t_interval

MISSING = "–"
PAPER = "the paper"
"""The header of the column with the paper's numbers, which stands to the right of the measured numbers."""
Cell: TypeAlias = Callable[[np.ndarray], str]


def mean(digits: int = 3) -> Cell:
    """Return a cell with the mean."""
    return lambda values: f"{values.mean():.{digits}f}"


def mean_sd(digits: int = 3) -> Cell:
    """Return a cell with mean ± standard deviation, the format of the paper."""
    return lambda values: f"{values.mean():.{digits}f} ± {spread(values):.{digits}f}"


def interval(digits: int = 3, least: float = -math.inf, most: float = math.inf) -> Cell:
    """Return a cell with the mean and its 95 % t interval, clipped to the range of the measure."""
    return lambda values: t_interval(values).within(least, most).text(digits)


def count(good: Any) -> str:
    """Return the number of true values as text: ``7 of 8``."""
    return f"{int(good.sum())} of {good.size}"


def at_least(mark: float) -> Cell:
    """Return a cell with the number of values that reach the mark."""
    return lambda values: count(values >= mark)


def marked(good: float, fair: float, digits: int = 3) -> Cell:
    """Return a cell with the mean after ✓ (at least good), ◐ (at least fair) or ✗."""

    def cell(values: np.ndarray) -> str:
        value = values.mean()
        return f"{'✓' if value >= good else '◐' if value >= fair else '✗'} {value:.{digits}f}"

    return cell


def table_of(cells: pd.DataFrame, caption: str, *, first: str = "", note: str = "") -> Table:
    """Return a frame of texts as a table; its index names the rows, and ``first`` is the header of the index.

    Measured numbers stand to the left of the paper's (`PAPER`), so that a phone shows them first.
    """
    names = [literal(str(name)) for name in cells.index]
    rows = [[name, *map(str, row)] for name, row in zip(names, cells.to_numpy().tolist(), strict=True)]
    return Table(caption, [first, *map(str, cells.columns)], rows, note)


def in_markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; a bar in a cell is escaped."""
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def difference_text(difference: float, low: float, high: float) -> str:
    """Return ``+0.013 (-0.002 to +0.028)``: a difference and its interval."""
    return f"{difference:+.3f} ({low:+.3f} to {high:+.3f})"


def p_text(p: float) -> str:
    """Return a p value as the text of a cell."""
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}"


def median_range(numbers: Iterable[float], digits: int = 3) -> str:
    """Return ``0.998 (0.991 to 0.999)``: the median, the lowest and the highest number, without NaN."""
    return _with_range(numbers, np.median, digits)


def mean_range(numbers: Iterable[float], digits: int = 3) -> str:
    """Return the mean with the lowest and the highest number, without NaN."""
    return _with_range(numbers, np.mean, digits)


def _with_range(numbers: Iterable[float], middle_of: Callable[[list[float]], Any], digits: int) -> str:
    present = [number for number in numbers if not np.isnan(number)]
    if not present:
        return MISSING
    low = num(min(present), digits)
    middle = num(middle_of(present), digits)
    high = num(max(present), digits)
    return middle if low == high else f"{middle} ({low} to {high})"


def num(value: float | None, digits: int = 3) -> str:
    """Return a number as text, ``0.951``; a missing number is a dash."""
    if value is None or math.isnan(value):
        return MISSING
    return "∞" if math.isinf(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no minus before a zero


def spread(values: np.ndarray) -> float:
    """Return the standard deviation of a sample; 0 for a single value."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def select(results: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Return the rows whose columns have these values: ``select(results, metric="neutrality", level="example")``."""
    for column, value in where.items():
        results = results[results[column] == value]
    return results
