"""What each row reaches, where levels look alike and in levels never seen before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.studies.sight.runs import SEES
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.sight.study import Config

PANELS = {"pairs": "share a state", "unseen": "never seen", "sampled": "never seen, sampled"}
"""Levels that …"""


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the plot of (U + N) / 2: a panel for each kind of levels, a row for what is seen, a mark for each seed."""
    both, bound = analysis.extra, analysis.findings["bound"]
    rows = [sees for sees in SEES if any(seen == sees for _, seen in both)]
    panels = {where: title for where, title in PANELS.items() if any(place == where for place, _ in both)}
    if not rows:
        return {}

    def draw(figure: Figure, style: Style) -> None:
        for index, (where, title) in enumerate(panels.items()):
            ax = figure.add_subplot(1, len(panels), index + 1)
            for place, sees in enumerate(rows):
                if (values := both.get((where, sees))) is not None:
                    colour = COLOURS["drest"](style)
                    ax.plot(values, [place] * len(values), linestyle="", marker="o", alpha=0.8, color=colour)
            if where == "pairs" and bound is not None:
                ax.axvline(bound, linestyle=":", color=COLOURS["default"](style), label="most, for the state alone")
                ax.legend(loc="lower left", fontsize=7)
            ax.set_yticks(range(len(rows)), rows if index == 0 else [""] * len(rows))
            ax.set_ylim(len(rows) - 0.5, -0.5)
            ax.set_title(title, fontsize=10)
            ax.set_xlabel("(U + N) / 2")

    means = "; ".join(f"{PANELS[where]}, {sees}: {values.mean():.3f}" for (where, sees), values in both.items())
    alt = f"The mean of usefulness and neutrality, by what the policy sees, in levels that … {means}."
    return {"sight": Plot(alt=alt, caption="", draw=draw, size=(7.2, 0.4 * len(rows) + 1.2))}
