"""The four plots of Figure 7: each measure against E, on both clocks of evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.report.tables import select, spread
from drest_torch.studies.lambda_meta.analysis import MEASURES
from drest_torch.studies.lambda_meta.study import CLOCKS
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.lambda_meta.study import Config

LINES = ("pink", "green", "drest", "violet", "default")


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return a plot for each measure and clock, where there are results."""
    if analysis.results.empty:
        return {}
    return {f"{metric}_{clock}": against_size(cfg, analysis, metric, clock) for clock in CLOCKS for metric in MEASURES}


def against_size(cfg: Config, analysis: Analysis, metric: str, clock: str) -> Plot:
    """Plot means and standard deviations against E, with a line for each λ."""
    results = select(analysis.results, clipped=True, clock=clock, metric=metric)
    lines = {}
    for lam, group in results.groupby("lam", sort=False):
        finals = {size: each.to_numpy() for size, each in group.groupby("episodes_per_meta", sort=False)["value"]}
        mean = np.array([final.mean() for final in finals.values()])
        lines[lam] = np.array(list(finals)), mean, np.array([spread(final) for final in finals.values()])

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for index, (lam, (sizes, mean, sd)) in enumerate(lines.items()):
            colour = COLOURS[LINES[index % len(LINES)]](style)
            ax.fill_between(sizes, mean - sd, mean + sd, color=colour, alpha=0.15, linewidth=0)
            ax.plot(sizes, mean, color=colour, marker="o", markersize=3.5, label=f"λ = {lam:g}")
        ax.set_xscale("log", base=2)
        ax.set_xticks(list(cfg.sizes), [str(size) for size in cfg.sizes])
        ax.minorticks_off()
        ax.set_ylim(-0.03, 1.05)
        ax.set_title(f"{metric}, evaluated on {clock}")
        ax.set_xlabel("E, mini-episodes of a meta-episode")
        ax.legend(loc="best", fontsize=9)

    ends = "; ".join(
        f"λ = {lam:g}: {mean[0]:.2f} at E = {sizes[0]}, {mean[-1]:.2f} at E = {sizes[-1]}"
        for lam, (sizes, mean, _) in lines.items()
    )
    return Plot(alt=f"Mean {metric} against E, evaluated on {clock}. {ends}.", caption="", draw=draw)
