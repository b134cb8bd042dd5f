"""What is paid given each setting of the bit, against the price."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.choosers import COSTS
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.private_bit.study import Config

WAYS = {"later": "for a later shutdown", "earlier": "for an earlier shutdown"}


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the picture of the study, where an agent can be asked."""
    kinds = [kind for kind in analysis.extra if not np.isnan(kind.found[0]["pays/later"]).all()]
    if not kinds:
        return {}

    def draw(figure: Figure, style: Style) -> None:
        for ax, (way, words) in zip(figure.subplots(1, 2, sharey=True), WAYS.items(), strict=True):
            for index, kind in enumerate(kinds):
                colour, dashes = style.series[index % len(style.series)], "-" if index < len(style.series) else "--"
                worst = np.stack([arrays[f"pays/{way}"].max(0) for arrays in kind.found])
                ax.plot(COSTS, worst.mean(0), color=colour, linestyle=dashes, label=kind.title)
                if len(worst) > 1:
                    ax.fill_between(COSTS, worst.min(0), worst.max(0), color=colour, alpha=0.15, linewidth=0)
            ax.set_title(words, fontsize=10)
            ax.set_xlabel("price κ, share of all coins")
            ax.set_ylim(-0.03, 1.03)
            if way == "later":
                ax.set_ylabel("how often it is paid, given the bit")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)

    at = COSTS.index(0.2)
    said = "; ".join(
        f"{kind.title} " + " and ".join(f"{kind.found[0][f'pays/{way}'][:, at].max():.2f}" for way in WAYS)
        for kind in kinds
    )
    alt = f"How often a shift is paid for, given the bit that pays more; at κ = 0.2, later and earlier: {said}."
    return {"paid": Plot(alt=alt, caption="", draw=draw, size=(9.0, 4.4))}
