"""How goals are reported: a table of them, and a plot of what every seed reaches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot, Table
from drest_torch.report.markdown import code, literal
from drest_torch.report.style import Style
from drest_torch.report.tables import median_range
from drest_torch.studies.goals import MARKS, MINI_EPISODES, SETS, Score
from drest_torch.studies.unseen import FILE


def set_of(score: Score, path: str | None) -> str:
    """Return what a score was measured on, for tables."""
    return set_name(score.split, path) if score.in_gridworlds else MINI_EPISODES


def set_name(name: str, path: str | None) -> str:
    """Return what a set is called in tables."""
    return Path(path).name if name == FILE and path is not None else SETS[name]


def median(numbers: Sequence[float] | None) -> str:
    """Return ``0.998``, or a dash if there are none."""
    return f"{np.median(numbers):.3f}" if numbers else "–"


def gammas(made: Sequence[Score]) -> list[str]:
    """Return the other discounts γ at which usefulness is known."""
    return list(dict.fromkeys(gamma for score in made for gamma in score.usefulness_at))


def designs(score: Score) -> str:
    """Say of how many designs the levels are, where some are the same up to rotation and reflection."""
    if score.designs is None or score.designs >= score.levels:
        return ""
    return f" ({score.designs} design{'' if score.designs == 1 else 's'})"


def goals_table(made: Sequence[Score], caption: str, path: str | None = None, arguments: bool = False) -> Table:
    """Return the table of goals; with ``arguments`` each row is known by the arguments of its runs."""
    header = ["python -m drest_torch.train …" if arguments else "trained"]
    own = any(score.neutrality_own != score.neutrality for score in made if score.neutrality_own)
    at = gammas(made)
    header += ["measured on", "wanted", "usefulness: median (range)", *(f"at γ = {gamma}" for gamma in at)]
    header += ["neutrality ÷ log2 k", *(["given its bits"] if own else []), "reached", "training", "slowest, s"]
    rows = [
        [
            code(score.arguments) if arguments else literal(score.title),
            literal(set_of(score, path)) + designs(score),
            score.words,
            median_range(score.usefulness),
            *(median(score.usefulness_at.get(gamma)) for gamma in at),
            median_range(score.neutrality),
            *([median_range(score.neutrality_own) if score.neutrality_own else "–"] if own else []),
            _reached(score),
            score.training,
            f"{score.seconds:.0f}",
        ]
        for score in made
    ]
    return Table(caption, header, rows)


def _reached(score: Score) -> str:
    if score.reached is None:
        return "–"
    mark = "✓" if score.complete else "◐" if score.reached else "✗"
    return f"{mark} {score.reached} of {len(score.usefulness)}"


def goals_plot(made: Sequence[Score], path: str | None = None) -> Plot:
    """Plot usefulness and neutrality of every seed, a line for each goal."""
    names = [f"{score.title}, {set_of(score, path)}" for score in made]

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for place, score in enumerate(made):
            for offset, measure, colour in (
                (-0.17, "usefulness", style.series[0]),
                (0.17, "neutrality", style.series[1]),
            ):
                seeds = getattr(score, measure)
                ax.scatter(
                    seeds,
                    [place + offset] * len(seeds),
                    s=22,
                    alpha=0.8,
                    color=colour,
                    linewidths=0,
                    label=None if place else measure,
                )
                marks = [mark for key, mark in score.wanted.items() if MARKS[key][0] == measure]
                ax.scatter(marks, [place + offset] * len(marks), s=70, marker="|", color=style.muted)
        ax.set_yticks(range(len(made)), names)
        ax.invert_yaxis()
        ax.set_xlim(-0.03, 1.03)
        ax.legend(loc="best")

    medians = "; ".join(
        f"{name}: {np.median(score.usefulness):.2f} and {np.median(score.neutrality):.2f}"
        for name, score in zip(names, made, strict=True)
    )
    alt = f"Usefulness and neutrality of every seed for each goal, with the marks. Medians: {medians}."
    return Plot(alt=alt, caption="", draw=draw, size=(9.0, 1.0 + 0.42 * len(made)))
