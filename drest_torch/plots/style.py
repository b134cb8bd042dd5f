"""Common style of plots: colours, the axes of learning curves, and a function that writes figures to files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence, Sized
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from drest_torch.errors import printable
from drest_torch.files import write_whole

TEXT, GREY, GRID = "#222222", "#8a8a8a", "#e6e6e6"
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}
Colour: TypeAlias = tuple[float, float, float, float]
BAND = 0.2
"""The opacity of a band."""
FONTS: Any = {"pdf.fonttype": 42}
"""Settings of matplotlib for files: TrueType fonts, because many journals refuse those of type 3."""
POINTS = 40
"""Curves with at most this number of points have markers; a single point would not be visible as a line."""


def marks(steps: Sized) -> dict[str, Any]:
    """Return the markers of a curve with few points."""
    if len(steps) > POINTS:
        return {}
    return {"marker": "o", "markersize": 3.5}


def tidy(ax: Axes, title: str, size: int) -> None:
    """Format axes of learning curves: a title, a pale grid, and short numbers of steps."""
    ax.set_title(title, fontsize=size, color=TEXT, loc="left", parse_math=False)
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.tick_params(labelsize=8, length=0, colors=TEXT)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    ax.spines["bottom"].set(visible=True, color=GREY)


def write_figure(figure: Figure, path: Path) -> None:
    """Write a picture atomically in the format of its ending, cropped to its content."""
    image = io.BytesIO()
    with mpl.rc_context(FONTS):
        figure.savefig(image, format=path.suffix[1:].lower(), dpi=160, bbox_inches="tight", pad_inches=0.15)
    write_whole(path, image.getvalue())


def distinct_colours(count: int) -> list[Colour]:
    """Return distinct colours: from a fixed set, or, for many runs, along a scale."""
    if count <= 10:
        return [mpl.colormaps["tab10"](index) for index in range(count)]
    return [mpl.colormaps["turbo"](0.05 + 0.9 * index / (count - 1)) for index in range(count)]


def legend_below(figure: Figure, lines: Iterable[Line2D], names: Sequence[str], band: str | None) -> None:
    """Put a legend of lines below a figure, with the meaning of the bands around them."""
    handles: list[Line2D | Patch] = [*lines]
    texts = [*map(printable, names)]
    if band is not None:
        handles.append(Patch(facecolor=GREY, alpha=2 * BAND, linewidth=0))
        texts.append(band)
    style: dict[str, Any] = {"ncols": 2, "fontsize": 8, "frameon": False, "labelcolor": TEXT}
    legend = figure.legend(handles, texts, loc="outside lower left", **style)
    for text in legend.get_texts():
        text.set_parse_math(False)
