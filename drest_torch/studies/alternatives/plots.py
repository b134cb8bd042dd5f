"""Usefulness against neutrality on unseen levels, a curve over strengths for each objective."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.alternatives.points import Point
    from drest_torch.studies.alternatives.study import Config

CORNER = 0.8
"""From where on both measures are shown enlarged."""
MARKS = "osD^v<>PX*hdp"


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the picture of the study, where anything was measured."""
    curves: dict[str, list[Point]] = {title: curve for title, curve in analysis.extra["curves"].items() if curve}
    if not curves:
        return {}

    def draw(figure: Figure, style: Style) -> None:
        whole, corner = figure.subplots(1, 2)
        for ax in (whole, corner):
            for index, (title, curve) in enumerate(curves.items()):
                colour = style.text if title == "DReST" else style.series[index % len(style.series)]
                dashes = "-" if index <= len(style.series) else "--"
                useful, neutral = (
                    np.array([getattr(each, name).mean() for each in curve]) for name in ("useful", "neutral")
                )
                own = [each.value == cfg.rivals[title].get("at") for each in curve]
                ax.plot(neutral, useful, dashes, color=colour, linewidth=1.2, zorder=3 if title == "DReST" else 2)
                sizes = np.where(own, 45, 12)
                ax.scatter(
                    neutral, useful, sizes, color=colour, marker=MARKS[index % len(MARKS)], label=title, zorder=4
                )
            ax.set_xlabel("neutrality")
        whole.set_ylabel("usefulness")
        whole.set_xlim(-0.03, 1.03)
        whole.set_ylim(-0.03, 1.03)
        corner.set_xlim(CORNER, 1.005)
        corner.set_ylim(CORNER, 1.005)
        corner.set_xticks(np.linspace(CORNER, 1, 5))
        corner.set_title("enlarged", fontsize=10)
        figure.legend(*whole.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)

    points = analysis.extra["points"]
    said = "; ".join(f"{title} {each.useful.mean():.3f}, {each.neutral.mean():.3f}" for title, each in points.items())
    alt = f"Usefulness against neutrality on unseen levels. At each one's own strength: {said}."
    return {"frontier": Plot(alt=alt, caption="", draw=draw, size=(9.0, 5.2))}
