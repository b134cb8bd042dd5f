"""What the studies draw: training curves of many agents, rows of intervals, and tabular policies as arrows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drest_torch.envs.view.rendering import render
from drest_torch.evaluation.tabular import Tables
from drest_torch.plots.policies import policy_panels
from drest_torch.plots.style import write_figure
from drest_torch.report.blocks import Plot
from drest_torch.report.style import LIGHT, Style
from drest_torch.statistics.intervals import Interval
from drest_torch.statistics.times import moving_average

DRAWN = 10
"""Of more agents than this no faint lines are drawn."""
_GROUPS_INSIDE = 3
"""A legend of more groups than this would hide curves, and stands below the plot."""
THREE_ABREAST = (3.5, 2.8)
"""Inches of a plot, so that three stand beside each other on a laptop."""
COLOURS: dict[str, Callable[[Style], str]] = {
    "default": lambda style: style.series[0],
    "drest": lambda style: style.series[1],
    "green": lambda style: style.series[2],
    "pink": lambda style: style.series[3],
    "violet": lambda style: style.series[4],
    "brown": lambda style: style.series[5],
    "text": lambda style: style.text,
}


@dataclass(frozen=True)
class Curves:
    """One group of agents."""

    label: str
    colour: str
    values: np.ndarray
    """[T, A]"""


def training_plot(
    x: np.ndarray,
    groups: Sequence[Curves],
    *,
    title: str,
    xlabel: str,
    alt: str,
    window: int = 1,
    log: bool = False,
    reference: float | None = None,
    size: tuple[float, float] = (4.8, 3.2),
) -> Plot:
    """Means as solid lines, the first agents as faint ones, as in the paper's Figure 3; from 0 to 1, or logarithmic."""

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        if reference is not None:
            ax.axhline(reference, color=style.muted, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
        for group in groups:
            colour = COLOURS[group.colour](style)
            values = moving_average(group.values, window)
            if values.shape[1] > 1:
                ax.plot(x, values[:, :DRAWN], color=colour, linewidth=0.7, alpha=0.35)
            ax.plot(x, values.mean(1), color=colour, label=group.label, linewidth=2)
        if log:
            ax.set_yscale("log")
        else:
            ax.set_ylim(-0.03, 1.03)
        ax.set_title(title)
        ax.set_xlabel(xlabel)
        if len(groups) > _GROUPS_INSIDE:
            figure.legend(loc="outside lower left", ncols=2)
        else:
            ax.legend(loc="best")

    return Plot(alt, "", draw, size)


def curves(title: str, xlabel: str, x: np.ndarray, groups: Mapping[str, np.ndarray]) -> Plot:
    """Plot a curve with its band for each group, and say in words where they begin and end."""
    ends = "; ".join(f"{name} {each[0].mean():.2f} to {each[-1].mean():.2f}" for name, each in groups.items())
    several = [
        Curves(name, [*COLOURS][index % len(COLOURS)], each) for index, (name, each) in enumerate(groups.items())
    ]
    return training_plot(x, several, title=title, xlabel=xlabel, alt=f"{title}, from the left to the right: {ends}.")


def dots(
    series: Mapping[str, Mapping[str, Interval]],
    *,
    title: str,
    lines: Mapping[float, str],
    alt: str,
    limits: tuple[float, float] | None = None,
    colours: Sequence[str] = (),
) -> Plot:
    """Plot intervals: a row for each name, and in it a dot for each series.

    The axis is logarithmic, from 1/16 to 16 at the widest, or a linear one with these ``limits``.
    ``colours`` are those of the series (see `drest_torch.report.plots.COLOURS`).
    """
    names = list(dict.fromkeys(name for each in series.values() for name in each))
    if not names:
        raise ValueError("a plot of rows needs a row")
    finite = [i for each in series.values() for i in each.values() if np.isfinite(i.estimate)]
    shown = finite if limits else [i for i in finite if i.estimate > 0]
    end = 1.15 * min(max([2.5, *(max(i.high, 1 / max(i.low, 1e-9)) for i in shown)]), 16)
    left, right = limits or (1 / end, end)

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for place, line in lines.items():
            colour, dashes = (style.muted, (0, (4, 4))) if line == "--" else (style.text, "-")
            ax.axvline(place, color=colour, linewidth=1, linestyle=dashes)
        for index, (label, each) in enumerate(series.items()):
            colour = COLOURS[colours[index]](style) if colours else style.series[(2, 3, 4, 1, 0, 5)[index % 6]]
            apart = 0.17 * (index - (len(series) - 1) / 2)
            for name, found in each.items():
                if found in shown:
                    y = names.index(name) + apart
                    ax.plot(np.clip((found.low, found.high), left, right), (y, y), color=colour)
                    ax.plot(found.estimate, y, "o", color=colour, markersize=4)
            ax.plot([], [], "o-", color=colour, markersize=4, label=label)
        if limits is None:
            ax.set_xscale("log")
            ticks = [tick for tick in (0.125, 0.25, 0.5, 1, 2, 4, 8) if left < tick < right]
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
        margin = 0.03 * (right - left) if limits else 0
        ax.set_xlim(left - margin, right + margin)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_title(title, loc="right")
        figure.legend(loc="outside lower right", ncols=len(series) if len(series) < 5 else 3)

    return Plot(alt, "", draw, (5.2, 0.46 * len(names) + 1.3))


def policy_plot(tables: Tables, logits: np.ndarray, *, title: str, alt: str, caption: str) -> Plot:
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

    side = 2.6
    return Plot(alt, caption, draw, (side * len(panels), side * level.height / level.width + 0.4))


def write_plot(plot: Plot, path: Path) -> None:
    """Write a plot as a picture of its own, in the colours of a light page."""
    with matplotlib.style.context(LIGHT.matplotlib(), after_reset=True):
        plot.draw(figure := Figure(figsize=plot.size), LIGHT)
        write_figure(figure, path)


def band(
    ax: Axes, x: np.ndarray, values: np.ndarray, colour: str, label: str, low: float = 10, high: float = 90
) -> None:
    """The mean of [X, A] values as a line, and the range between two percentiles as a shade."""
    ax.fill_between(x, *np.percentile(values, (low, high), axis=1), color=colour, alpha=0.2, linewidth=0)
    ax.plot(x, values.mean(1), color=colour, label=label)
