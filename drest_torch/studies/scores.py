"""Tables and plots of an earlier study, from what `docs/results/goals.json` keeps of it, for `docs/tables.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.report.blocks import Plot, Table
from drest_torch.report.markdown import literal
from drest_torch.report.plots import PALETTE, Line, beside, lines_plot
from drest_torch.report.tables import mean_range, median_range
from drest_torch.studies.engine import as_table

TEST, TRAIN, PAPER, FILE = "test", "train", "paper", "file"
PARTS = {
    "learning": "training in the paper's worlds, and the default command in unseen levels",
    "unseen": "one agent for many gridworlds, in unseen levels",
    "follow_up": "the follow-up's protocol: its training levels alone",
    "choices": "what the choices of one agent for many gridworlds contribute",
    "size": "agents on maps of 7 to 9 and of 10 to 16 cells a side",
    "beyond": "environments of others, from samples",
}
"""The parts of the study that had goals."""
MARKS = {"usefulness": "U ≥ {:g}", "neutrality": "N ≥ {:g}", "neutrality_at_most": "N ≤ {:g}"}
"""What may be wanted, and the words of tables."""
MINI_EPISODES = "new mini-episodes"
"""What agents are evaluated on in an environment that is no gridworld."""
SETS = {
    TEST: "its own test levels",
    TRAIN: "its training levels",
    PAPER: "the paper's nine",
    FILE: "the levels of study.path",
}


RANDOM = "random actions"
LEVEL_COSTS = {
    "generate": "generate a level",
    "solve": "find its lengths and m(l)",
    "evaluate": "evaluate a uniform policy exactly",
}
"""What was timed with every level, and its words; the other times are those of an environment step, by network."""


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


def words_of(wanted: Mapping[str, float]) -> str:
    """Return what is wanted, for a table."""
    return ", ".join(MARKS[key].format(mark) for key, mark in wanted.items()) or "–"


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


def follow_up_table(published: Mapping[str, Any], made: list[Score]) -> Table:
    """Return the agents trained on the follow-up's levels alone, beside what it reports."""
    measured = {(each.title, each.split): each for each in made}
    rows = []
    for title in dict.fromkeys(each.title for each in made):
        ours = [_pair(measured.get((title, name))) for name in (TRAIN, FILE)]
        theirs = ["{:.3f}, {:.3f}".format(*published[title][name]) for name in (TRAIN, TEST)]
        training = measured[title, TRAIN]
        rows.append([literal(title), training.training, f"{training.seconds:.0f}", *ours, *theirs])
    header = [
        "",
        "training",
        "slowest, s",
        "ours, on training levels",
        "ours, on validation levels",
        "published, on training levels",
        "published, on test levels",
    ]
    return Table("Trained on the follow-up's levels alone: usefulness, neutrality ÷ log2 k", header, rows)


def _pair(found: Score | None) -> str:
    return "–" if found is None else f"{mean_range(found.usefulness)}, {mean_range(found.neutrality)}"


def size_table(means: Mapping[str, Any], measure: str, sides: Sequence[int]) -> Table:
    """Return a measure of each agent by the side of the map."""
    cells = [[title, *(median_range(found[measure][str(side)]) for side in sides)] for title, found in means.items()]
    words = "Neutrality ÷ log2 k" if measure == "neutrality" else "Usefulness"
    return Table(f"{words} by the side of the map", ["agent", *map(str, sides)], cells)


def cost_table(cost: Mapping[str, Any]) -> Table:
    """Return the times of each size: milliseconds per level, microseconds per environment step."""
    seconds = pd.DataFrame({side: numbers["seconds"] for side, numbers in cost.items()}).T
    per_level, per_step = list(LEVEL_COSTS), [name for name in seconds if name not in LEVEL_COSTS]
    cells = (1e3 * seconds[per_level]).map("{:.2f}".format).join((1e6 * seconds[per_step]).map("{:.0f}".format))
    cells.insert(0, "states", [f"{numbers['states']:,.0f}" for numbers in cost.values()])
    header = ["side", "states of a level", *(f"{words}, ms" for words in LEVEL_COSTS.values())]
    header += [f"step of PPO, {name}, µs" for name in per_step]
    return as_table(cells, "Times by the side of the map", header)


def sizes_plot(sizes: Mapping[str, Any]) -> Plot:
    """Plot usefulness and neutrality against the side of the map, a line for each agent."""

    def of(measure: str) -> Plot:
        lines = []
        for (title, means), colour in zip(sizes.items(), cycle(PALETTE), strict=False):
            medians = [np.median(seeds) for seeds in means[measure].values()]
            lines.append(
                Line(title, [*map(int, means[measure])], medians, "muted" if title == RANDOM else colour, "o-")
            )
        return lines_plot(lines, title=measure, xlabel="rows and columns of the map")

    return beside(*map(of, ("usefulness", "neutrality")))


def cost_plot(cost: Mapping[str, Any]) -> Plot:
    """Plot times against the cells of the map: per level, and per environment step of training."""
    cells, every = zip(*((numbers["cells"], numbers["seconds"]) for numbers in cost.values()), strict=True)

    def of(names: Mapping[str, str], title: str, unit: float) -> Plot:
        lines = [
            Line(words, cells, [seconds[name] / unit for seconds in every], colour, "o-")
            for (name, words), colour in zip(names.items(), cycle(PALETTE), strict=False)
        ]
        return lines_plot(lines, title=title, xlabel="cells of the map", log="xy", limits=None)

    networks = {name: name for name in every[0] if name not in LEVEL_COSTS}
    return beside(of(LEVEL_COSTS, "milliseconds per level", 1e-3), of(networks, "microseconds per step of PPO", 1e-6))
