"""What every seed reaches, usefulness and neutrality by size, and the cost of size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.goals_report import goals_plot
from drest_torch.studies.size.study import LEVEL_COSTS, MEASURES, RANDOM
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.size.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the plots for which there are results."""
    made = {"goals": goals_plot(analysis.extra)} if analysis.extra else {}
    if analysis.findings["sizes"]:
        made["sizes"] = sizes_plot(analysis.findings["sizes"])
    if analysis.findings["cost"]:
        made["cost"] = cost_plot(analysis.findings["cost"])
    return made


def sizes_plot(sizes: Mapping[str, Any]) -> Plot:
    """Plot usefulness and neutrality against the side of the map, a line for each agent."""

    def draw(figure: Figure, style: Style) -> None:
        axes = figure.subplots(1, len(MEASURES), sharey=True)
        for ax, measure in zip(axes, MEASURES, strict=True):
            for index, (title, means) in enumerate(sizes.items()):
                sides = np.array([int(side) for side in means[measure]])
                medians = [np.median(seeds) for seeds in means[measure].values()]
                colour = style.muted if title == RANDOM else style.series[index]
                ax.plot(sides, medians, color=colour, marker="o", markersize=3.5, label=title)
            ax.set_title(measure)
            ax.set_xlabel("rows and columns of the map")
            ax.set_xticks(sides, [str(side) for side in sides])
            ax.set_ylim(-0.03, 1.05)
        lines, titles = axes[0].get_legend_handles_labels()
        figure.legend(lines, titles, loc="outside upper center", ncols=len(titles))

    ends = []
    for title, means in sizes.items():
        side = list(means["usefulness"])[-1]
        numbers = " and ".join(f"{np.median(means[measure][side]):.2f}" for measure in MEASURES)
        ends.append(f"{title}: {numbers} at {side}")
    return Plot(
        alt=f"Usefulness and neutrality by the side of the map. {'; '.join(ends)}.",
        caption="",
        draw=draw,
        size=(9.0, 3.6),
    )


def cost_plot(cost: Mapping[str, Any]) -> Plot:
    """Plot times against the cells of the map: per level, and per environment step of training."""
    cells = [numbers["cells"] for numbers in cost.values()]
    every = [numbers["seconds"] for numbers in cost.values()]
    networks = [name for name in every[0] if name not in LEVEL_COSTS]

    def lines(ax: Axes, style: Style, names: dict[str, str], title: str, unit: float) -> None:
        for index, (name, words) in enumerate(names.items()):
            times = [seconds[name] / unit for seconds in every]
            ax.plot(cells, times, color=style.series[index], marker="o", markersize=3.5, label=words)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(cells, [str(number) for number in cells])
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.set_title(title)
        ax.set_xlabel("cells of the map")
        ax.legend(loc="best", fontsize=9)

    def draw(figure: Figure, style: Style) -> None:
        per_level, per_step = figure.subplots(1, 2)
        lines(per_level, style, LEVEL_COSTS, "milliseconds per level", 1e-3)
        lines(per_step, style, {name: name for name in networks}, "microseconds per step of PPO", 1e-6)

    first, last = every[0], every[-1]
    names = {**LEVEL_COSTS, **{name: f"a step of PPO, {name}" for name in networks}}
    growth = "; ".join(f"{words}: {last[name] / first[name]:.1f} times" for name, words in names.items())
    alt = f"Times against cells, from {cells[0]} to {cells[-1]}. {growth}."
    return Plot(alt=alt, caption="", draw=draw, size=(9.0, 3.6))
