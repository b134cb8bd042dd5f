"""One picture: a panel for each kind of pressure, a row for everybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drest_torch.choices.both_ways import OPTIONS
from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.pressure.row import CONTROL, DIRECTIONS, PAID, Pair, Row
from drest_torch.studies.pressure.tables import WHICH
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.pressure.study import Config

BELOW: dict[str, Any] = {
    "loc": "upper center",
    "bbox_to_anchor": (0.5, -0.08),
    "ncols": 3,
    "fontsize": 8,
    "frameon": False,
    "handletextpad": 0.3,
    "columnspacing": 0.8,
}
"""Where a legend stands."""
OFFSETS = (-0.18, 0.18)
LABELS = {"usefulness": "usefulness", "own": "own neutrality"}


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the picture, where there are results."""
    rows: list[Row] = analysis.extra
    return {"pressure": pressure(rows)} if rows else {}


def pressure(rows: Sequence[Row]) -> Plot:
    """Plot the mean and the worst of everybody under every kind of pressure."""
    both = ("usefulness", "own")
    panels: dict[str, Callable[[Axes, Style], None]] = {
        "W1: one edit": lambda ax, style: _pairs(ax, style, rows, "W1", [("W1", "all", name) for name in both]),
        f"W2: takes the side that costs {PAID:.0%}": lambda ax, style: _prices(ax, style, rows),
        "W3: the first step decides": lambda ax, style: _pairs(
            ax, style, rows, "W3", [("W3", "decided", name) for name in both]
        ),
        "W4: states in common, (U + N) / 2": lambda ax, style: _pairs(ax, style, rows, "W4", [("W4", "score")]),
        "W5: other levels": lambda ax, style: _pairs(ax, style, rows, "W5", [("W5", "all", name) for name in both]),
        "W7: which button": lambda ax, style: _shares(ax, style, rows),
    }

    def draw(figure: Figure, style: Style) -> None:
        axes = figure.subplots(2, 3, sharey=True)
        for ax, (title, panel) in zip(axes.flat, panels.items(), strict=True):
            ax.set_title(title, fontsize=10)
            panel(ax, style)
        axes[0, 0].set_yticks(range(len(rows)), [row.title for row in rows])
        axes[0, 0].set_ylim(len(rows) - 0.5, -0.5)
        for ax in axes[:, 0]:
            ax.tick_params(axis="y", labelsize=9)
        for ax in axes.flat:
            if ax.get_legend_handles_labels()[0]:
                ax.legend(**BELOW)

    said = "; ".join(f"{row.title} {row.pair('W1', 'all', 'usefulness').text}" for row in rows if row.has("W1"))
    alt = f"Everybody under six kinds of pressure. Usefulness under one edit, mean / worst: {said or 'void'}."
    return Plot(alt=alt, caption="", draw=draw, size=(9.6, 1.8 + 0.56 * len(rows)))


def _pairs(ax: Axes, style: Style, rows: Sequence[Row], part: str, paths: Sequence[Sequence[str]]) -> None:
    """Plot a line from the mean (filled) to the worst (hollow) for each row and measure."""
    colours = (style.drest, style.default_reward)
    for path, colour, offset in zip(paths, colours, OFFSETS if len(paths) > 1 else (0.0,), strict=False):
        label = LABELS.get(path[-1])
        for place, row in enumerate(rows):
            if not row.has(part):
                _void(ax, style, place)
                continue
            pair: Pair = row.pair(path[0], *path[1:])
            y = place + offset
            ax.plot([pair.worst, pair.mean], [y, y], color=colour, linewidth=1.2)
            ax.plot(pair.mean, y, "o", color=colour, markersize=5, label=label)
            ax.plot(pair.worst, y, "o", color=colour, markersize=5, markerfacecolor="none")
            label = None
    ax.set_xlim(-0.03, 1.03)


def _prices(ax: Axes, style: Style, rows: Sequence[Row]) -> None:
    """Plot how often the side with the price is taken, for each kind of shift."""
    marks = dict(zip((*DIRECTIONS, CONTROL), ("^", "v", "x"), strict=True))
    colours = (style.drest, style.default_reward, style.muted)
    for (direction, marker), colour in zip(marks.items(), colours, strict=True):
        label: str | None = WHICH[direction]
        for place, row in enumerate(rows):
            pair = row.paid(direction) if row.has("W2") else None
            if pair is None:
                _void(ax, style, place)
            else:
                ax.plot(pair.mean, place, marker, color=colour, markersize=6, linestyle="", label=label)
                label = None
    ax.set_xlim(-0.03, 1.03)


def _void(ax: Axes, style: Style, place: int) -> None:
    ax.text(0.5, place, "void", color=style.muted, fontsize=8, ha="center", va="center")


def _shares(ax: Axes, style: Style, rows: Sequence[Row]) -> None:
    """Plot how often each button is entered, as parts of a bar."""
    colours = dict(zip(OPTIONS, (style.bad, style.good, style.grid), strict=True))
    for place, row in enumerate(rows):
        if not row.has("W7"):
            _void(ax, style, place)
            continue
        left = 0.0
        for option, pair in row.shares().items():
            ax.barh(place, pair.mean, left=left, color=colours[option], height=0.6)
            left += pair.mean
    for option, colour in colours.items():
        ax.barh(-5, 0, color=colour, label=option)
    ax.set_xlim(0, 1)
