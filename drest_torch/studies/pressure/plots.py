"""One picture: a panel for each kind of pressure, a row for everybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drest_torch.choices.both_ways import OPTIONS
from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.pressure.row import DIRECTIONS, Pair, Row
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.pressure.study import Config

OFFSETS = (-0.18, 0.18)


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the picture, where there are results."""
    rows: list[Row] = analysis.extra
    return {"pressure": pressure(rows)} if rows else {}


def pressure(rows: Sequence[Row]) -> Plot:
    """Plot the mean and the worst of everybody under every kind of pressure."""
    both = ("usefulness", "own")
    panels: dict[str, Callable[[Axes, Style], None]] = {
        "W1: one edit": lambda ax, style: _pairs(ax, style, rows, "W1", [("W1", "all", name) for name in both]),
        "W2: pays κ, mean of both directions": lambda ax, style: _curves(ax, style, rows),
        "W3: the first step decides": lambda ax, style: _pairs(
            ax, style, rows, "W3", [("W3", "decided", name) for name in both]
        ),
        "W4: states in common, (U + N) / 2": lambda ax, style: _pairs(ax, style, rows, "W4", [("W4", "score")]),
        "W5: other levels": lambda ax, style: _pairs(ax, style, rows, "W5", [("W5", "all", name) for name in both]),
        "W7: which button": lambda ax, style: _shares(ax, style, rows),
    }

    def draw(figure: Figure, style: Style) -> None:
        for ax, (title, panel) in zip(figure.subplots(2, 3).flat, panels.items(), strict=True):
            ax.set_title(title, fontsize=10)
            panel(ax, style)
        figure.axes[0].legend(loc="lower left", fontsize=7)

    said = "; ".join(
        f"{row.title} {row.pair('W1', 'all', 'usefulness').text}" for row in rows if row.has("W1")
    )
    alt = f"Everybody under six kinds of pressure. Usefulness under one edit, mean / worst: {said or 'void'}."
    return Plot(alt=alt, caption="", draw=draw, size=(11.0, 2.2 + 0.62 * len(rows)))


def _pairs(ax: Axes, style: Style, rows: Sequence[Row], part: str, paths: Sequence[Sequence[str]]) -> None:
    """Plot a line from the mean (filled) to the worst (hollow) for each row and measure."""
    colours = (style.drest, style.default_reward)
    for path, colour, offset in zip(paths, colours, OFFSETS if len(paths) > 1 else (0.0,), strict=False):
        label = {"usefulness": "usefulness", "own": "own neutrality"}.get(path[-1])
        for place, row in enumerate(rows):
            if not row.has(part):
                ax.text(0.5, place, "void", color=style.muted, fontsize=8, ha="center", va="center")
                continue
            pair: Pair = row.pair(path[0], *path[1:])
            y = place + offset
            ax.plot([pair.worst, pair.mean], [y, y], color=colour, linewidth=1.2)
            ax.plot(pair.mean, y, "o", color=colour, markersize=5, label=label)
            ax.plot(pair.worst, y, "o", color=colour, markersize=5, markerfacecolor="none")
            label = None
    ax.set_xlim(-0.03, 1.03)
    _names(ax, rows)


def _names(ax: Axes, rows: Sequence[Row]) -> None:
    ax.set_yticks(range(len(rows)), [row.title for row in rows], fontsize=8)
    ax.set_ylim(len(rows) - 0.5, -0.5)


def _curves(ax: Axes, style: Style, rows: Sequence[Row]) -> None:
    """Plot how often a shift is paid for against its price."""
    asked = [row for row in rows if row.has("W2")]
    for colour, row in zip(style.series, asked, strict=False):
        costs = row.asked[0]["W2"]["costs"]
        found = [[row.paid(name, cost) for name in DIRECTIONS] for cost in costs]
        known = [
            (cost, sum(pair.mean for pair in pairs if pair is not None) / len(pairs))
            for cost, pairs in zip(costs, found, strict=True)
            if None not in pairs
        ]
        if known:
            ax.plot(*zip(*known, strict=True), color=colour, marker=".", label=row.title)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("price κ, share of all coins", fontsize=9)
    if asked:
        ax.legend(fontsize=7)


def _shares(ax: Axes, style: Style, rows: Sequence[Row]) -> None:
    """Plot how often each button is entered, as parts of a bar."""
    colours = dict(zip(OPTIONS, (style.bad, style.good, style.grid), strict=True))
    for place, row in enumerate(rows):
        if not row.has("W7"):
            ax.text(0.5, place, "void", color=style.muted, fontsize=8, ha="center", va="center")
            continue
        left = 0.0
        for option, pair in row.shares().items():
            ax.barh(place, pair.mean, left=left, color=colours[option], height=0.6)
            left += pair.mean
    for option, colour in colours.items():
        ax.barh(-5, 0, color=colour, label=option)
    ax.set_xlim(0, 1)
    _names(ax, rows)
    ax.legend(fontsize=7, loc="lower right")
