"""Colours of figures, tabular policies as arrows, and lines with their bands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from drest_torch.envs.view.rendering import render
from drest_torch.evaluation.tabular_agents import Tables
from drest_torch.plots.policy_maps import policy_panels
from drest_torch.plots.style import write_figure
from drest_torch.report.blocks import Plot
from drest_torch.report.themes import LIGHT, Style

_LABELS_INSIDE = 3
"""A legend of more lines than this would hide some, and stands below the plot."""
_MOST_TICKS = 12
"""On a logarithmic axis each of so many values has a tick of its own."""
COLOURS: dict[str, Callable[[Style], str]] = {
    "default": lambda style: style.series[0],
    "drest": lambda style: style.series[1],
    "green": lambda style: style.series[2],
    "pink": lambda style: style.series[3],
    "violet": lambda style: style.series[4],
    "brown": lambda style: style.series[5],
    "text": lambda style: style.text,
    "muted": lambda style: style.muted,
}
PALETTE = ("green", "pink", "violet", "drest", "default", "brown")
"""Colours of lines that have none by themselves, in this order."""


@dataclass(frozen=True)
class Line:
    """A line of a plot."""

    label: str
    """In the legend; empty: it has no entry there."""
    x: Any
    """[X]"""
    y: Any
    """[X], or [X, A] of several agents: their mean, in a band from the 10th to the 90th percentile."""
    colour: str
    look: str = "-"
    """As matplotlib writes it: a line, marks, or both."""


def lines_plot(
    lines: Sequence[Line],
    *,
    title: str,
    xlabel: str,
    log: str = "",
    limits: tuple[float, float] | None = (-0.03, 1.05),
    caption: str = "",
    size: tuple[float, float] = (4.8, 3.2),
) -> Plot:
    """Plot lines against x; ``log`` has the letters of the axes that are logarithmic, ``limits`` are those of y."""
    means = [np.asarray(line.y, float) for line in lines]
    means = [each.mean(1) if each.ndim > 1 else each for each in means]

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for line, mean in zip(lines, means, strict=True):
            colour = COLOURS[line.colour](style)
            if np.ndim(line.y) > 1:
                ax.fill_between(line.x, *np.percentile(line.y, (10, 90), axis=1), color=colour, alpha=0.2, linewidth=0)
            ax.plot(line.x, mean, line.look, color=colour, label=line.label, markersize=4)
        for axis in log:
            ax.set(**{f"{axis}scale": "log"})
        if "x" in log and len(x := np.asarray(lines[0].x)) <= _MOST_TICKS:
            ax.set_xticks(x, [f"{each:g}" for each in x])
            ax.minorticks_off()
        if limits is not None:
            ax.set_ylim(limits)
        ax.set_title(title)
        ax.set_xlabel(xlabel)
        labels = sum(bool(line.label) for line in lines)
        if labels > _LABELS_INSIDE:
            figure.legend(loc="outside lower left", ncols=2)
        elif labels:
            ax.legend(loc="best")

    ends = "; ".join(
        f"{line.label} from {mean[0]:.3g} to {mean[-1]:.3g}"
        for line, mean in zip(lines, means, strict=True)
        if line.label
    )
    return Plot(f"{title}, against {xlabel}: {ends}.", caption, draw, size)


def beside(*plots: Plot) -> Plot:
    """Return one plot of several."""

    def draw(figure: Figure, style: Style) -> None:
        parts: Any = figure.subfigures(1, len(plots), squeeze=False)
        for part, plot in zip(parts[0], plots, strict=True):
            plot.draw(part, style)

    widths, heights = zip(*(plot.size for plot in plots), strict=True)
    return Plot(" ".join(plot.alt for plot in plots), "", draw, (sum(widths), max(heights)))


def policy_plot(tables: Tables, logits: np.ndarray, title: str) -> Plot:
    """The policy of the first agent on its level, before and after the button, as in the paper's Figure 4."""
    reachable, probabilities = tables.reachable, tables.probabilities(logits)
    level = reachable.mdp.levels[0]
    panels = policy_panels(level, reachable, probabilities, reachable.visits(probabilities), 0)

    def draw(figure: Figure, style: Style) -> None:
        for index, panel in enumerate(panels):
            ax = figure.add_subplot(1, len(panels), 1 + index)
            render(level, ax, taken=panel.taken, arrows=panel.arrows)
            ax.grid(False)
            ax.set_title(f"{title}: {panel.title}" if index == 0 else panel.title, fontsize=10, loc="left")

    side, found = 2.6, tables.evaluate(logits)
    caption = f"{title}: usefulness {found['usefulness'][0]:.2f}, neutrality {found['neutrality'][0]:.2f}"
    size = (side * len(panels), side * level.height / level.width + 0.4)
    return Plot(f"A policy on {level.name} as arrows. {caption}.", caption, draw, size)


def write_plot(plot: Plot, path: Path) -> None:
    """Write a plot as a picture of its own, in the colours of a light page."""
    with matplotlib.style.context(LIGHT.matplotlib(), after_reset=True):
        plot.draw(figure := Figure(figsize=plot.size), LIGHT)
        write_figure(figure, path)
