"""What every seed reaches, and how the choice of a length changes over training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.jobs.job import Result
from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.studies.beyond.study import default_of
from drest_torch.studies.goals import chosen_goals
from drest_torch.studies.goals_report import goals_plot
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.beyond.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return a plot of all goals, and one of the longest length over training."""
    scores, runs = analysis.extra
    if not scores:
        return {}
    return {"goals": goals_plot(scores), "longest": longest(cfg, runs)}


def longest(cfg: Config, runs: dict[str, list[Result]]) -> Plot:
    """Plot the probability of the longest length over training, a panel for each task and a line for each seed."""
    titles = [title for title in chosen_goals(cfg) if runs.get(title) or runs.get(default_of(title))]

    def draw(figure: Figure, style: Style) -> None:
        axes = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
        for ax, title in zip(axes, titles, strict=True):
            for name, label in ((title, "drest"), (default_of(title), "default")):
                for index, run in enumerate(runs.get(name, [])):
                    steps, chance = _longest(run)
                    colour = COLOURS[label](style)
                    words = {"drest": "DReST", "default": "default reward"}[label]
                    ax.plot(steps, chance, color=colour, linewidth=1.2, alpha=0.8, label=None if index else words)
            ax.set_title(title, fontsize=10)
            ax.set_xlabel("million steps")
            ax.set_ylim(-0.03, 1.03)
        axes[0].set_ylabel("P(longest length)")
        axes[0].legend(loc="best", fontsize=8)

    ends = "; ".join(
        f"{name} {np.median([_longest(run)[1][-1] for run in several]):.2f}"
        for name, several in runs.items()
        if several
    )
    alt = f"The probability of the longest length over training, for each task. At the end, medians: {ends}."
    return Plot(alt=alt, caption="", draw=draw, size=(2.6 * max(len(titles), 2), 2.8))


def _longest(run: Result) -> tuple[np.ndarray, np.ndarray]:
    """Return millions of steps and the probability of the longest length, a mean over levels."""
    length = max(run.arrays["test/lengths"])
    key = f"eval/test/p_length/{length:g}"
    steps = run.arrays["steps"] / 1e6
    return steps, run.arrays[key] if key in run.arrays else np.full(len(steps), np.nan)
