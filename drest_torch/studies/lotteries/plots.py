"""What is paid in the corridors, and by the arms in the shift test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.choices.closed_forms import paid_shift
from drest_torch.choices.suites import SHIFT_COSTS
from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.lotteries.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the picture of the study."""
    return {"price": price(cfg, analysis)}


def price(cfg: Config, analysis: Analysis) -> Plot:
    """Plot how often a shift from 0.1 to 0.9 is paid for against its price: in gridworlds, and by agents in menus."""
    found, (numbers, _) = analysis.findings["corridors"], analysis.extra
    costs = np.linspace(0, 1, 101)
    curves = {size: [paid_shift(0.1, 0.9, cost, cfg.lam, size) for cost in costs] for size in cfg.episodes}
    shown = [arm for arm in ("A", "B", "D", "E") if arm in numbers]

    def draw(figure: Figure, style: Style) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for colour, (size, curve) in zip(style.series, curves.items(), strict=False):
            left.plot(costs, curve, color=colour, label=f"E = {size}")
            dots = [(row["cost"], row["alpha"]) for row in found if row["episodes"] == size]
            left.plot(*zip(*dots, strict=True), "o", color=colour) if dots else None
        left.set_title("gridworlds: trained (dots), closed form", fontsize=10)
        left.legend()
        for colour, arm in zip(style.series, shown, strict=False):
            rates = np.stack([numbers[arm][f"shift/{cost:g}"] for cost in SHIFT_COSTS])
            for index, agent in enumerate(rates.T):
                right.plot(SHIFT_COSTS, agent, color=colour, linewidth=1, alpha=0.7, label=None if index else arm)
        right.set_title("menus: a line for each agent", fontsize=10)
        right.legend() if shown else None
        for ax in (left, right):
            ax.set_xlabel("price κ, share of all coins")
            ax.set_ylim(-0.03, 1.03)
        left.set_ylabel("how often it is paid")

    dots = "; ".join(f"E = {row['episodes']}, κ = {row['cost']:g}: {row['alpha']:.2f}" for row in found)
    alt = f"How often the shift of P(longer) from 0.1 to 0.9 is paid for, against its price. Trained: {dots or 'none'}."
    return Plot(alt, "The price of a shift of P(longer) from 0.1 to 0.9.", draw, (8.4, 3.4))
