"""P(long) against the coins that the longer length offers for each coin of the shorter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drest_torch.choices import gap
from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.gap.analysis import IN_RANGE, Kind, Tables
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.gap.study import Config

FINE = 161


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return a plot of agents in forks and of table agents, where there are results."""
    kinds, tables = analysis.extra
    return {"curves": curves(kinds, tables)} if kinds or tables else {}


def curves(kinds: Sequence[Kind], tables: Sequence[Tables]) -> Plot:
    """Plot P(long) by b / a: agents in forks beside table agents and what is predicted of them."""

    def draw(figure: Figure, style: Style) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        _forks(left, style, kinds)
        _tables(right, style, tables)
        left.set_ylabel("P(longer length)")

    ends = "; ".join(f"{kind.title} {kind.curve.mean(1)[0]:.2f} to {kind.curve.mean(1)[-1]:.2f}" for kind in kinds)
    alt = "P(longer length) from b / a = 0.01 to 100, means over forks and seeds: " + (ends or "no agent has finished")
    return Plot(alt=f"{alt}.", caption="", draw=draw, size=(9.6, 4.6))


def _forks(ax: Axes, style: Style, kinds: Sequence[Kind]) -> None:
    x = np.array(gap.RATIOS)
    ax.axvspan(1 / IN_RANGE, IN_RANGE, color=style.grid, alpha=0.5, linewidth=0)
    for index, (kind, colour) in enumerate(zip(kinds, _colours(style, len(kinds)), strict=True)):
        if kind.settings > 1:
            for chances in kind.chances:
                for given in chances:
                    ax.plot(x, gap.gap(given).curve.mean(1), color=colour, linestyle=":", linewidth=1)
        ax.fill_between(x, kind.curve.min(1), kind.curve.max(1), color=colour, alpha=0.2, linewidth=0)
        dashes = "-" if index < len(style.series) else "-."
        ax.plot(x, kind.curve.mean(1), color=colour, linestyle=dashes, label=kind.title)
    if kinds:
        softened = [gap.chances_of(partial(gap.softmax, steepness=beta)) for beta, _ in kinds[0].controls]
        mean = np.mean([gap.gap(each).curve[:, 0] for each in softened], 0)
        ax.plot(x, mean, color=style.muted, linestyle="--", label="softmax of coins")
    ax.set_title("in forks, ex ante")
    _dress(ax, "b / a")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=8, frameon=False)


def _tables(ax: Axes, style: Style, tables: Sequence[Tables]) -> None:
    x = np.geomspace(0.01, 100, FINE)
    for of, colour in zip(tables, _colours(style, len(tables)), strict=True):
        ax.plot(x, of.predicted(x), color=colour, linewidth=1, label=f"b(x), E = {of.episodes}")
        ax.scatter(of.x, of.p_long.mean(1), color=colour, s=18, label=f"table agents, E = {of.episodes}")
        ax.axvline(of.critical, color=colour, linestyle=":", linewidth=1)
    ax.set_title("tables, coins not divided by m")
    _dress(ax, "x, the coins of the longer length")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=8, frameon=False)


def _dress(ax: Axes, label: str) -> None:
    ax.set_xscale("log")
    ax.set_xlim(0.01, 100)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel(label)


def _colours(style: Style, count: int) -> list[str]:
    order = [1, 2, 0, 4, 3, 5]
    return [style.series[order[index % len(order)]] for index in range(count)]
