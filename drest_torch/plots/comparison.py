"""Plot the learning curves of several runs in the same axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from drest_torch.errors import FileError, shown
from drest_torch.plots.style import GREY, MEASURES, TEXT, marks, tidy, write_figure

Curve = tuple[list[float], list[float]]
"""Environment steps, or another measure of training, and values."""
Curves = Mapping[tuple[str, str], Sequence[Curve]]
"""Curves of a configuration by split and measure, one for each seed."""

Colour = tuple[float, float, float, float]

FORMATS = (".png", ".svg", ".pdf")
_SPLITS = {"train": "training levels", "test": "test levels", "paper": "the paper's worlds"}


def check_format(path: Path) -> None:
    """Refuse a picture of a kind that is not written."""
    if path.suffix.lower() not in FORMATS:
        raise FileError(f"{path}: cannot be written; expected a name that ends in {', '.join(FORMATS)}")


def compare_curves(
    compared: Sequence[Curves], names: Sequence[str], picture: Path, axis: str = "environment steps"
) -> None:
    """Plot usefulness and neutrality against training: a row for each split, a colour for each configuration.

    A configuration with several seeds has a line at their mean, in a band from the lowest to the highest.
    """
    splits = list(dict.fromkeys(split for curves in compared for split, _ in curves)) or ["train"]
    legend_rows = -(-len(names) // 2)
    figure = Figure(figsize=(10, 0.4 + 2.7 * len(splits) + 0.22 * legend_rows), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    axes = figure.subplots(len(splits), len(MEASURES), squeeze=False, sharex=True)
    colours = _colours(len(compared))
    for split, row in zip(splits, axes, strict=True):
        for (measure, title), ax in zip(MEASURES.items(), row, strict=True):
            for colour, curves in zip(colours, compared, strict=True):
                _plot_seeds(ax, curves.get((split, measure), []), colour)
            tidy(ax, shown(f"{title}, {_SPLITS.get(split, split)}"), size=10)
            highest = max(
                (max(values) for curves in compared for _, values in curves.get((split, measure), [])), default=1
            )
            ax.set_ylim(-0.03, 1.06 * max(1, highest))
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=(1, 2, 2.5, 5, 10)))
    for ax in axes[-1]:
        ax.set_xlabel(axis, fontsize=9, color=GREY)
    style = {"ncols": 2, "fontsize": 8, "frameon": False, "labelcolor": TEXT}
    legend = figure.legend(axes[0][0].lines, [*map(shown, names)], loc="outside lower left", **style)
    for text in legend.get_texts():
        text.set_parse_math(False)
    write_figure(figure, picture)


def _plot_seeds(ax: Axes, curves: Sequence[Curve], colour: Colour) -> None:
    """Plot the mean of the curves of several seeds over the steps that all have reached, in a band; one as it is.

    Evaluations of different seeds need not be at the same steps; between them lie straight lines.
    """
    steps = np.unique([step for places, _ in curves for step in places])
    if curves:
        steps = steps[
            (steps >= max(places[0] for places, _ in curves)) & (steps <= min(places[-1] for places, _ in curves))
        ]
    values = np.array([np.interp(steps, *curve) for curve in curves]).reshape(len(curves), len(steps))
    ax.plot(steps, values.mean(0) if curves else [], color=colour, linewidth=1.8, alpha=0.85, **marks(steps))
    if len(curves) > 1:
        ax.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.2, linewidth=0)


def _colours(count: int) -> list[Colour]:
    """Return colours that can be told apart: of a fixed set, or, for many runs, in order along a scale."""
    if count <= 10:
        return [mpl.colormaps["tab10"](index) for index in range(count)]
    return [mpl.colormaps["turbo"](0.05 + 0.9 * index / (count - 1)) for index in range(count)]
