"""Plot the learning curves of several runs in the same axes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator

from drest_torch.errors import FileError, shown
from drest_torch.files import write_whole
from drest_torch.plots.style import GREY, GRID, TEXT

Curve = tuple[list[float], list[float]]
"""Environment steps, or another measure of training, and values."""
Curves = Mapping[tuple[str, str], Sequence[Curve]]
"""Curves of a configuration by split and measure, one for each seed."""

Colour = tuple[float, float, float, float]

FORMATS = (".png", ".svg", ".pdf")
_MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}
_SPLITS = {"train": "training levels", "test": "test levels", "paper": "the paper's worlds"}
_POINTS = 40
"""A curve with at most as many points has a marker at each."""


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
    check_format(picture)
    splits = list(dict.fromkeys(split for curves in compared for split, _ in curves)) or ["train"]
    legend_rows = -(-len(names) // 2)
    figure = Figure(figsize=(10, 0.4 + 2.7 * len(splits) + 0.22 * legend_rows), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    axes = figure.subplots(len(splits), len(_MEASURES), squeeze=False, sharex=True)
    colours = _colours(len(compared))
    for split, row in zip(splits, axes, strict=True):
        for (measure, title), ax in zip(_MEASURES.items(), row, strict=True):
            for colour, curves in zip(colours, compared, strict=True):
                _plot_seeds(ax, curves.get((split, measure), []), colour)
            words = f"{title}, {_SPLITS.get(split, split)}"
            ax.set_title(shown(words), fontsize=10, color=TEXT, loc="left", parse_math=False)
            highest = max(
                (max(values) for curves in compared for _, values in curves.get((split, measure), [])), default=1
            )
            ax.set_ylim(-0.03, 1.06 * max(1, highest))
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=(1, 2, 2.5, 5, 10)))
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))
            ax.tick_params(labelsize=8, length=0, colors=TEXT)
            ax.grid(color=GRID, linewidth=0.8)
            ax.set_axisbelow(True)
            ax.spines[:].set_visible(False)
            ax.spines["bottom"].set(visible=True, color=GREY)
    for ax in axes[-1]:
        ax.set_xlabel(axis, fontsize=9, color=GREY)
    style = {"ncols": 2, "fontsize": 8, "frameon": False, "labelcolor": TEXT}
    legend = figure.legend(axes[0][0].lines, [*map(shown, names)], loc="outside lower left", **style)
    for text in legend.get_texts():
        text.set_parse_math(False)
    image = io.BytesIO()
    figure.savefig(image, format=picture.suffix[1:].lower(), dpi=160, bbox_inches="tight", pad_inches=0.15)
    write_whole(picture, image.getvalue())


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
    marks: dict[str, Any] = {"marker": "o", "markersize": 3.5} if len(steps) <= _POINTS else {}
    ax.plot(steps, values.mean(0) if curves else [], color=colour, linewidth=1.8, alpha=0.85, **marks)
    if len(curves) > 1:
        ax.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.2, linewidth=0)


def _colours(count: int) -> list[Colour]:
    """Return colours that can be told apart: of a fixed set, or, for many runs, in order along a scale."""
    if count <= 10:
        return [mpl.colormaps["tab10"](index) for index in range(count)]
    return [mpl.colormaps["turbo"](0.05 + 0.9 * index / (count - 1)) for index in range(count)]
