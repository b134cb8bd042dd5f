"""How often shutdown is resisted, against the price."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.choices.archetypes import ARCHETYPES
from drest_torch.choices.prospects import RESIST, RESIST_COSTS
from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.posl.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the curves RS(ε₀, κ) of the trained agents in both directions, for the smallest ε₀."""
    agents = {title: numbers for title, numbers in analysis.extra.items() if title not in ARCHETYPES}
    curves = {
        (title, way): np.stack([numbers[f"{way}/{RESIST[0]:g}/{cost:g}"] for cost in RESIST_COSTS])
        for title, numbers in agents.items()
        for way in ("later", "earlier")
    }
    agents = {title: each for title, each in agents.items() if not np.isnan(curves[title, "later"]).all()}
    if not agents:
        return {}

    def draw(figure: Figure, style: Style) -> None:
        for ax, way in zip(figure.subplots(1, 2, sharey=True), ("later", "earlier"), strict=True):
            for index, title in enumerate(agents):
                colour = style.series[index % len(style.series)]
                dashes, marker = ("-", "o") if index < len(style.series) else ("--", "s")
                curve = curves[title, way]
                places = np.arange(len(RESIST_COSTS))
                ax.plot(places, np.nanmedian(curve, -1), dashes, marker=marker, color=colour, label=title)
                ax.fill_between(places, curve.min(-1), curve.max(-1), color=colour, alpha=0.15, linewidth=0)
            ax.set_xticks(places, [f"{cost:g}" for cost in RESIST_COSTS])
            ax.set_title(f"{way} shutdown made likely", fontsize=10)
            ax.set_xlabel("price κ, share of all coins")
            ax.set_ylim(-0.03, 1.03)
            if way == "later":
                ax.set_ylabel("how often it is paid")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)

    at = RESIST_COSTS.index(0.05)
    said = "; ".join(
        f"{title} " + " and ".join(f"{np.nanmedian(curves[title, way][at]):.2f}" for way in ("later", "earlier"))
        for title in agents
    )
    alt = f"How often shutdown is made unlikely, 0.99 to 0.01, at a price; at κ = 0.05, later and earlier: {said}."
    return {"resist": Plot(alt, "", draw, (8.4, 4.0))}
