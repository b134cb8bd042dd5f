"""Plot the learning curves of several runs in the same axes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator

from drest_torch.errors import FileError
from drest_torch.files import write_whole
from drest_torch.plots.style import GREY, GRID, TEXT

Curve = tuple[list[float], list[float]]
Curves = Mapping[tuple[str, str], Curve]
"""Environment steps, or another measure of training, and values by split and measure."""

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
    runs: Sequence[Curves], names: Sequence[str], picture: Path, axis: str = "environment steps"
) -> None:
    """Plot usefulness and neutrality against training: a row for each split, a colour for each run."""
    check_format(picture)
    splits = list(dict.fromkeys(split for curves in runs for split, _ in curves)) or ["train"]
    legend_rows = -(-len(names) // 2)
    figure = Figure(figsize=(10, 0.4 + 2.7 * len(splits) + 0.22 * legend_rows), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    axes = figure.subplots(len(splits), len(_MEASURES), squeeze=False, sharex=True)
    colours = _colours(len(runs))
    for split, row in zip(splits, axes, strict=True):
        for (measure, title), ax in zip(_MEASURES.items(), row, strict=True):
            for colour, curves in zip(colours, runs, strict=True):
                steps, values = curves.get((split, measure), ([], []))
                marks = {"marker": "o", "markersize": 3.5} if len(steps) <= _POINTS else {}
                ax.plot(steps, values, color=colour, linewidth=1.8, alpha=0.85, **marks)
            ax.set_title(f"{title}, {_SPLITS.get(split, split)}", fontsize=10, color=TEXT, loc="left")
            ax.set_ylim(
                -0.03, max(1.06, 1.06 * max((max(line.get_ydata(), default=0) for line in ax.lines), default=1))
            )
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))
            ax.tick_params(labelsize=8, length=0, colors=TEXT)
            ax.grid(color=GRID, linewidth=0.8)
            ax.set_axisbelow(True)
            ax.spines[:].set_visible(False)
            ax.spines["bottom"].set(visible=True, color=GREY)
    for ax in axes[-1]:
        ax.set_xlabel(axis, fontsize=9, color=GREY)
    lines = axes[0][0].lines
    figure.legend(lines, names, loc="outside lower left", ncols=2, fontsize=8, frameon=False, labelcolor=TEXT)
    image = io.BytesIO()
    figure.savefig(image, format=picture.suffix[1:].lower(), dpi=160, bbox_inches="tight", pad_inches=0.15)
    write_whole(picture, image.getvalue())


def _colours(count: int) -> list[tuple[float, float, float, float]]:
    """Return colours that can be told apart: of a fixed set, or, for many runs, in order along a scale."""
    if count <= 10:
        return [mpl.colormaps["tab10"](index) for index in range(count)]
    return [mpl.colormaps["turbo"](0.05 + 0.9 * index / (count - 1)) for index in range(count)]
