"""What agents reach of a goal on a set of levels, by how many seeds, as a table and a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.evaluation.exact_evaluator import PAPER_GAMMAS
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.markdown import literal
from drest_torch.report.plots import dots
from drest_torch.report.tables import median_range
from drest_torch.studies.shared import whole_range
from drest_torch.studies.unseen import FILE, PAPER, TEST, TRAIN
from drest_torch.tracking.effort import NUMBERS, effort, is_exact, million, rows

METRICS = {
    "usefulness": "usefulness",
    "neutrality": "neutrality_normalised",
    "neutrality_own": "neutrality_own_normalised",
}
"""The measures of goals, and their names in the tidy table."""
AT = {f"{gamma:g}": f"usefulness_at_{gamma:g}" for gamma in PAPER_GAMMAS}
"""The usefulness at other discounts γ, by γ, and its names in the tidy table."""
DESIGN = "design"
"""The number of the design that a level is a symmetry of, in the tidy table."""
MARKS: dict[str, tuple[str, str, Callable[[Any, float], Any]]] = {
    "usefulness": ("usefulness", "U ≥ {:g}", np.greater_equal),
    "neutrality": ("neutrality", "N ≥ {:g}", np.greater_equal),
    "neutrality_at_most": ("neutrality", "N ≤ {:g}", np.less_equal),
}
"""What may be wanted: the measure, the words of tables, and the comparison with the mark."""
MINI_EPISODES = "new mini-episodes"
"""What agents are evaluated on in an environment that is no gridworld."""
SETS = {
    TEST: "its own test levels",
    TRAIN: "its training levels",
    PAPER: "the paper's nine",
    FILE: "the levels of study.path",
}


@dataclass(frozen=True)
class Score:
    """What the agents of a goal reach on one set of levels, and what is wanted of them there."""

    part: str
    title: str
    arguments: str
    split: str
    levels: int
    wanted: dict[str, float]
    usefulness: list[float]
    """Means over levels, one for each seed; neutrality is ÷ log2 k."""
    neutrality: list[float]
    neutrality_own: list[float]
    """The neutrality given the private bits; empty if it was not measured."""
    seconds: float
    """Of the slowest run."""
    reached: int | None
    """By how many seeds; None where nothing is wanted."""
    training: str = ""
    """What training took: environment steps, or, of exact gradients, updates × levels and the network's rows."""
    designs: int | None = None
    """How many of the levels are different up to rotation and reflection, if known."""
    usefulness_at: dict[str, list[float]] = field(default_factory=dict)
    """The usefulness at the discounts γ of the paper, by γ, one for each seed."""

    @property
    def complete(self) -> bool:
        """Return whether every seed reaches the goal."""
        return self.reached == len(self.usefulness)

    @property
    def place(self) -> str:
        """Return what a score was measured on, for tables."""
        if "env=" in self.arguments:
            return MINI_EPISODES
        few = self.designs is not None and self.designs < self.levels
        return f"{SETS[self.split]} ({self.designs} designs)" if few else SETS[self.split]


def score(title: str, goal: Mapping[str, Any], split: str, measured: pd.DataFrame, took: pd.DataFrame) -> Score:
    """Return the score of a goal on a set from its rows, a value [levels] for each metric and seed."""
    by_metric = {metric: each.sort_values("seed").value for metric, each in measured.groupby("metric")}
    means = {name: [float(np.mean(x)) for x in by_metric.get(metric, ())] for name, metric in METRICS.items()}
    wanted = {key: float(mark) for key, mark in goal["wanted"][split].items()}
    met = [MARKS[key][2](means[MARKS[key][0]], mark) for key, mark in wanted.items()]
    longest = {metric: float(np.concatenate([*each.value]).max()) for metric, each in took.groupby("metric")}
    exact = is_exact(longest)
    designs = by_metric.get(DESIGN)
    return Score(
        goal["part"],
        title,
        goal["arguments"],
        split,
        len(by_metric["usefulness"].iloc[0]),
        wanted,
        **means,
        seconds=longest["seconds"],
        reached=int(np.logical_and.reduce(met).sum()) if met else None,
        training=f"{effort(longest)}; {rows(longest)}" if exact else f"{million(longest['env_steps'])} steps",
        designs=None if designs is None else len(np.unique(designs.iloc[0])),
        usefulness_at={
            gamma: [float(np.mean(x)) for x in by_metric[metric]] for gamma, metric in AT.items() if metric in by_metric
        },
    )


def took(numbers: Mapping[str, Any]) -> dict[str, float]:
    """Return what a run took, by the names of the tidy table."""
    names = NUMBERS if is_exact(numbers) else ("env_steps",)
    return {"seconds": numbers["wall_seconds"]} | {name: numbers[name] for name in names}


def words_of(wanted: Mapping[str, float]) -> str:
    """Return what is wanted, for a table."""
    return ", ".join(MARKS[key][1].format(mark) for key, mark in wanted.items()) or "–"


def at_gamma(numbers: Sequence[float] | None) -> str:
    """Return the median, or a dash if there are none."""
    return f"{median(numbers):.3f}" if numbers else "–"


def gammas(made: Sequence[Score]) -> list[str]:
    """Return the other discounts γ at which usefulness is known."""
    return list(dict.fromkeys(gamma for score in made for gamma in score.usefulness_at))


def goals_table(made: Sequence[Score], caption: str) -> Table:
    """Return the table of goals."""
    at, own = gammas(made), any(score.neutrality_own not in ([], score.neutrality) for score in made)
    header = ["trained", "measured on", "wanted", "usefulness: median (range)", *(f"at γ = {gamma}" for gamma in at)]
    header += ["neutrality ÷ log2 k", *(["given its bits"] if own else []), "reached", "training", "slowest, s"]
    cells = [
        [
            literal(score.title),
            literal(score.place),
            words_of(score.wanted),
            median_range(score.usefulness),
            *(at_gamma(score.usefulness_at.get(gamma)) for gamma in at),
            median_range(score.neutrality),
            *([median_range(score.neutrality_own) if score.neutrality_own else "–"] if own else []),
            "–"
            if score.reached is None
            else f"{'✓' if score.complete else '◐' if score.reached else '✗'} "
            f"{score.reached} of {len(score.usefulness)}",
            score.training,
            f"{score.seconds:.0f}",
        ]
        for score in made
    ]
    return Table(caption, header, cells)


def goals_plot(made: Sequence[Score]) -> Plot:
    """Plot the median and the range of usefulness and neutrality over seeds, a row for each goal."""
    series = {
        measure: {f"{score.title}, {score.place}": whole_range(getattr(score, measure)) for score in made}
        for measure in ("usefulness", "neutrality")
    }
    return dots(series, title="usefulness and neutrality ÷ log2 k", lines={}, limits=(0, 1))
