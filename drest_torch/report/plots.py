"""Colours of figures, and tabular policies as arrows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from drest_torch.envs.view.rendering import render
from drest_torch.evaluation.tabular_agents import Tables
from drest_torch.plots.policy_maps import policy_panels
from drest_torch.plots.style import write_figure
from drest_torch.report.blocks import Plot
from drest_torch.report.themes import LIGHT, Style

COLOURS: dict[str, Callable[[Style], str]] = {
    "default": lambda style: style.series[0],
    "drest": lambda style: style.series[1],
    "green": lambda style: style.series[2],
    "pink": lambda style: style.series[3],
    "violet": lambda style: style.series[4],
    "brown": lambda style: style.series[5],
    "text": lambda style: style.text,
    "muted": lambda style: style.muted,
}
PALETTE = ("green", "pink", "violet", "drest", "default", "brown")
"""Colours of lines without a colour, in this order."""


def policy_plot(tables: Tables, logits: np.ndarray, title: str) -> Plot:
    """Plot the policy of the first agent on its level, before and after the button, as in the paper's Figure 4."""
    reachable, probabilities = tables.reachable, tables.probabilities(logits)
    level = reachable.mdp.levels[0]
    panels = policy_panels(level, reachable, probabilities, reachable.visits(probabilities), 0)

    def draw(figure: Figure, style: Style) -> None:
        for index, panel in enumerate(panels):
            ax = figure.add_subplot(1, len(panels), 1 + index)
            render(level, ax, taken=panel.taken, arrows=panel.arrows)
            ax.grid(False)
            ax.set_title(f"{title}: {panel.title}" if index == 0 else panel.title, fontsize=10, loc="left")

    side = 2.6
    metrics = tables.evaluate(logits)
    caption = f"{title}: usefulness {metrics['usefulness'][0]:.2f}, neutrality {metrics['neutrality'][0]:.2f}"
    size = (side * len(panels), side * level.height / level.width + 0.4)
    return Plot(f"A policy on {level.name} as arrows. {caption}.", caption, draw, size)


def write_plot(plot: Plot, path: Path) -> None:
    """Write a plot to a picture file, in the colours of the light theme."""
    with matplotlib.style.context(LIGHT.matplotlib(), after_reset=True):
        plot.draw(figure := Figure(figsize=plot.size), LIGHT)
        write_figure(figure, path)
