"""Common style of plots: colours, the axes of learning curves, and a function that writes figures to files."""

from __future__ import annotations

import io
from collections.abc import Sized
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from drest_torch.files import write_whole

TEXT, GREY, GRID = "#222222", "#8a8a8a", "#e6e6e6"
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}
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
    figure.savefig(image, format=path.suffix[1:].lower(), dpi=160, bbox_inches="tight", pad_inches=0.15)
    write_whole(path, image.getvalue())
