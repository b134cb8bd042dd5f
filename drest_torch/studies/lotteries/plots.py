"""How often the corridor that costs is taken, against what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.choices import shift
from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.studies.lotteries.study import COINS, DREST, NEUTRALITY_PLUS
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.lotteries.study import Config

POINTS = 96


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the plot of the corridors: lines are predicted, marks were trained."""
    paid = analysis.findings["paid"]
    if not paid:
        return {}
    fine = np.linspace(0, 0.95, POINTS)
    first, second = cfg.corridors

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for size, line in zip(cfg.sizes, ("--", "-", ":", "-."), strict=False):
            curve = [shift.share_of_costly(first, second, cost, cfg.lam, size) for cost in fine]
            colour, name = COLOURS["drest"](style), f"{DREST}, E = {size}"
            ax.plot(fine, curve, color=colour, linestyle=line, linewidth=1.2, label=f"{name}, predicted")
            if name in paid:
                ax.plot(cfg.costs, paid[name], "o", color=colour, markersize=5, label=f"{name}, trained")
        for name, marker, colour in ((COINS, "s", COLOURS["default"](style)), (NEUTRALITY_PLUS, "D", style.text)):
            if name in paid:
                words = "expected coins" if name == COINS else name
                ax.plot(cfg.costs, paid[name], marker, color=colour, markersize=5, label=f"{words}, trained")
        ax.set_xlabel("share of all coins that the corridor costs")
        ax.set_ylabel("how often it is taken")
        ax.set_ylim(-0.04, 1.04)
        ax.legend(fontsize=8)

    said = "; ".join(f"{name} {', '.join(f'{share:.2f}' for share in np.abs(shares))}" for name, shares in paid.items())
    costs = ", ".join(f"{cost:g}" for cost in cfg.costs)
    alt = f"How often the corridor that costs is taken, against its cost. At the costs {costs}: {said}."
    return {"corridors": Plot(alt=alt, caption="", draw=draw, size=(6.4, 3.8))}
