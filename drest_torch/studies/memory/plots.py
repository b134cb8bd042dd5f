"""What is left to chance, by kind of agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.report.tables import select, values
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.memory.study import Config

MARKS = {"marginal": ("default", "o", "the length, to an observer"), "conditional": ("drest", "D", "given its memory")}


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the plot of both entropies, a row for each kind of agent and a mark for each seed."""
    rows, kinds = analysis.results, list(analysis.findings["medians"])
    if not kinds:
        return {}

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for metric, (colour, marker, label) in MARKS.items():
            for place, kind in enumerate(kinds):
                numbers = values(select(rows, variant=kind), metric=metric)
                ax.plot(
                    numbers,
                    [place] * len(numbers),
                    linestyle="",
                    marker=marker,
                    markersize=6,
                    alpha=0.8,
                    color=COLOURS[colour](style),
                    label=None if place else label,
                )
        ax.set_yticks(range(len(kinds)), kinds)
        ax.invert_yaxis()
        ax.set_xlim(-0.03, 1.03)
        ax.set_xlabel("entropy of the length (bits)")
        ax.legend(loc="lower left", fontsize=8)

    said = "; ".join(
        f"{kind} {found['marginal']:.2f} and {found['conditional']:.2f}"
        for kind, found in analysis.findings["medians"].items()
    )
    alt = f"The entropy of the length, alone and given what the agent remembers. Medians: {said}."
    return {"entropy": Plot(alt=alt, caption="", draw=draw, size=(6.4, 0.42 * len(kinds) + 1.0))}
