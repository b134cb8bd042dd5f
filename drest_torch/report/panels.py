"""Figures with several panels of the same kinds of curves, such as a panel for each world."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.figures import Curve, draw_curve, draw_legend, handle_of, legend_height
from drest_torch.report.plots import COLOURS
from drest_torch.report.themes import Style


def panel_figure(
    panels: Mapping[str, Sequence[Curve]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    caption: str = "",
    limits: tuple[float, float] = (-0.03, 1.05),
    columns: int = 2,
    width: float = 4.8,
) -> Plot:
    """Plot curves in a panel for each name, with shared axes and one legend; every curve needs a colour."""
    if not panels:
        raise ValueError(f"the figure '{title}' has no panel")
    first = next(iter(panels.values()))
    spreads = [curve.spread for curve in first]
    lines = math.ceil(len(panels) / columns)

    def draw(figure: Figure, style: Style) -> None:
        axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        for ax, (name, curves) in zip(axes, panels.items(), strict=False):
            for curve in curves:
                draw_curve(ax, curve, COLOURS[curve.colour](style))
            ax.set_ylim(limits)
            ax.set_title(name, fontsize=10, parse_math=False)
        for ax in axes[-columns:]:
            ax.set_xlabel(xlabel)
        figure.suptitle(title, fontsize=11, x=0.02, ha="left")
        figure.supylabel(ylabel, fontsize=11)
        draw_legend(figure, [handle_of(curve, style) for curve in first], spreads, style)

    ends = "; ".join(f"{name}: {', '.join(map(_end, curves))}" for name, curves in panels.items())
    height = 0.9 + 1.45 * lines + legend_height([curve.label for curve in first], spreads, width)
    return Plot(f"{title}: {ylabel} against {xlabel}. {ends}.", caption, draw, (width, height))


def _end(curve: Curve) -> str:
    return f"{curve.label} ends at {curve.y[-1]:.3g}"
