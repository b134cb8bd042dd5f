"""Learning curves of a run."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from drest_torch.plots.style import GREY, GRID, TEXT, write_figure
from drest_torch.statistics.times import moving_average

Curve = tuple[list[int], list[float]]
"""Steps and values."""


_MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}


_EVALUATION = re.compile(r"eval/(?P<split>.+)/(?:usefulness|neutrality)")


_OPTIMISER = ("train/", "policy/", "loss/", "critic/", "optim/")


_COLOURS = ("#2c7fb8", "#d95f02", "#7a7a7a", "#1b9e77", "#7b3294", "#b8860b")
"""Of the splits, in the order in which they are first met."""


_COLUMNS = 4
"""Optimiser's curves in a row."""


_POINTS = 40
"""A curve of more than twice as many points is drawn pale, with its moving average over it."""


def learning_curves(metrics_file: Path, picture: Path) -> None:
    """Draw a run's ``metrics.jsonl``: the exact metrics of every split above, the optimiser's curves below.

    A record need not have every key; a last line that was torn off by a kill is left out.
    """
    curves = _read_curves(metrics_file)
    below = [name for prefix in _OPTIMISER for name in sorted(curves) if name.startswith(prefix)]
    rows = math.ceil(len(below) / _COLUMNS)
    figure = Figure(figsize=(11, 3.6 + 1.75 * rows), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    grid = figure.add_gridspec(1 + rows, 2 * _COLUMNS, height_ratios=[2.2] + [1] * rows)
    last_step = max((steps[-1] for steps, _ in curves.values()), default=0)
    for index, measure in enumerate(_MEASURES):
        ax = figure.add_subplot(grid[0, index * _COLUMNS : (index + 1) * _COLUMNS])
        _draw_splits(ax, curves, measure)
        _tidy(ax, last_step, title=_MEASURES[measure], size=11)
    for index, name in enumerate(below):
        row, column = divmod(index, _COLUMNS)
        ax = figure.add_subplot(grid[1 + row, 2 * column : 2 * column + 2])
        _draw_noisy(ax, curves[name], "#4d4d4d")
        ax.yaxis.set_major_locator(MaxNLocator(3))
        _tidy(ax, last_step, title=name, size=9)
    figure.supxlabel("environment steps", fontsize=9, color=GREY)
    write_figure(figure, picture)


def _read_curves(path: Path) -> dict[str, Curve]:
    """Every metric with its steps; values that are no finite number are left out."""
    curves: dict[str, Curve] = defaultdict(lambda: ([], []))
    for record in _records(path):
        for name, value in record.items():
            if name != "step" and isinstance(value, (int, float)) and math.isfinite(value):
                steps, values = curves[name]
                steps.append(record["step"])
                values.append(value)
    return dict(curves)


def _records(path: Path) -> list[dict[str, Any]]:
    *lines, _ = path.read_text(encoding="utf-8").split("\n")  # a line is whole once its end is written
    return [json.loads(line) for line in lines]


def _draw_splits(ax: Axes, curves: Mapping[str, Curve], measure: str) -> None:
    """One line a split, its colour the same for every measure, and its last value in the legend."""
    splits = dict.fromkeys(match["split"] for name in curves if (match := _EVALUATION.fullmatch(name)))
    top = 1.0
    ax.axhline(1, color=GREY, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
    for index, split in enumerate(splits):
        if f"eval/{split}/{measure}" in curves:
            steps, values = curves[f"eval/{split}/{measure}"]
            top = max(top, *values)
            label = f"{split}  {values[-1]:.2f}"
            colour = _COLOURS[index % len(_COLOURS)]
            ax.plot(steps, values, color=colour, linewidth=2, label=label, zorder=3, **_marks(steps))
    ax.set_ylim(-0.03 * top, 1.06 * top)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    if ax.lines[1:]:
        ax.legend(loc="best", fontsize=9, frameon=True, framealpha=0.85, edgecolor="none", labelcolor=TEXT)


def _draw_noisy(ax: Axes, curve: Curve, colour: str) -> None:
    steps, values = curve
    window = len(values) // _POINTS
    if window > 1:
        ax.plot(steps, values, color=colour, linewidth=0.8, alpha=0.25)
        values = moving_average(np.array(values), window, symmetric=False).tolist()
    ax.plot(steps, values, color=colour, linewidth=1.4, **_marks(steps))


def _marks(steps: Sequence[int]) -> dict[str, Any]:
    """Few points are shown as such; one alone would be no line."""
    return {"marker": "o", "markersize": 3.5} if len(steps) <= _POINTS else {}


def _tidy(ax: Axes, last_step: int, *, title: str, size: int) -> None:
    ax.set_title(title, fontsize=size, color=TEXT, loc="left")
    ax.set_xlim(-0.02 * (last_step or 1), 1.02 * (last_step or 1))
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    ax.tick_params(labelsize=8, length=0, colors=TEXT)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    ax.spines["bottom"].set(visible=True, color=GREY)
