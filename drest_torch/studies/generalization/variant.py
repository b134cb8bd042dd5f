"""The runs of one variant, what their policies do on each set of levels, and how two of them differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.effort import effort, is_exact, rows, updates_of
from drest_torch.jobs.job import Job, Result
from drest_torch.report.tables import select
from drest_torch.statistics.bootstrap import Interval
from drest_torch.statistics.intervals import contrast, levels_interval
from drest_torch.statistics.times import hitting_times
from drest_torch.studies.unseen import TEST, TRAIN

BOTH = ("usefulness", "neutrality")
MEASURES = {
    "usefulness": "usefulness",
    "neutrality": "neutrality ÷ log2 k",
    "neutral": "share of levels with neutrality ÷ log2 k > {mark:g}",
    "coins": "coins ÷ most possible",
}
"""The measures of every set, by their names in the findings, and their heads in tables."""
METRICS = {
    "usefulness": "usefulness",
    "neutrality": "neutrality_normalised",
    "coins": "coins_of_most",
    "longer": "p_longer",
}
"""Their names in the tidy table."""
_COLUMNS = (("usefulness", "step"), ("usefulness", "value"), ("neutrality", "value"))
"""Metrics and columns of the tidy table that a `Curve` is made of."""


@dataclass(frozen=True)
class Runs:
    """The runs of a variant: all of them, and those that are finished."""

    jobs: Sequence[Job]
    done: Sequence[tuple[Job, Result]]

    @property
    def seeds(self) -> list[int]:
        """Return the seeds of the finished runs."""
        return [job.spec["config"]["seed"] for job, _ in self.done]


@dataclass(frozen=True)
class Curve:
    """Evaluations of one run on the selection levels during training [T]; neutrality is ÷ log2 k."""

    steps: np.ndarray
    usefulness: np.ndarray
    neutrality: np.ndarray

    def reaches(self, mark: float) -> float:
        """Return the steps from which on usefulness stays at the mark or above it; never is inf."""
        (steps,) = hitting_times(self.steps, self.usefulness[:, None], mark, window=1)
        return float(steps)

    def best(self) -> int:
        """Return the evaluation with the largest usefulness × neutrality."""
        return int((self.usefulness * self.neutrality).argmax())


@dataclass(frozen=True, eq=False)
class Variant:
    """The finished runs of one variant."""

    title: str
    seeds: int
    """How many runs are finished, S, of those that are ``wanted``."""
    wanted: int
    mark: float
    numbers: Mapping[str, Any]
    """Of the first finished run; what they say of the sets is the same for all."""
    measured: Mapping[tuple[str, str], np.ndarray]
    """[S, n] for each set and metric of the tidy table."""
    curves: Sequence[Curve]
    seconds: float
    """Median over runs."""
    first: Result | None
    _intervals: dict[tuple[str, str], Interval] = field(default_factory=dict)

    @classmethod
    def of(cls, title: str, runs: Runs, results: pd.DataFrame, mark: float) -> Variant:
        """Return a variant from the rows of the tidy table."""
        own = select(results, variant=title)
        ends = own[own["step"].isna()]
        measured = {
            key: group["value"].to_numpy().reshape(len(runs.done), -1)
            for key, group in ends.groupby(["split", "metric"], sort=False)
        }
        curves = [
            Curve(*(group[group["metric"] == METRICS[metric]][column].to_numpy() for metric, column in _COLUMNS))
            for _, group in own[own["split"] == "selection"].groupby("seed", sort=False)
        ]
        seconds = float(np.median(measured["all", "seconds"])) if runs.done else math.nan
        first = runs.done[0][1] if runs.done else None
        numbers = first.numbers if first else {}
        return cls(title, len(runs.done), len(runs.jobs), mark, numbers, measured, curves, seconds, first)

    @property
    def exact(self) -> bool:
        """Return whether the runs are of exact gradients, whose curves are over updates and not over steps."""
        return is_exact(self.numbers)

    @property
    def unit(self) -> str:
        """Return what training is measured in: ``steps``, or ``updates of 64 levels``."""
        return updates_of(self.numbers["levels_per_update"]) if self.exact else "steps"

    @property
    def training(self) -> str:
        """Return what training took."""
        return f"{effort(self.numbers)}; {rows(self.numbers)}" if self.exact else effort(self.numbers)

    @property
    def map_size(self) -> Sequence[int]:
        """Return rows and columns of the maps that the policies were built for."""
        return self.numbers.get("map_size", ())

    @property
    def worst(self) -> Sequence[Mapping[str, Any]]:
        """Return the worst test levels of the first run."""
        return self.numbers.get("worst", ())

    def about(self, name: str) -> dict[str, Any]:
        """Return ``levels``, ``left_out``, ``seen`` and ``sha256`` of a set."""
        about: dict[str, Any] = self.numbers["sets"][name]
        return about

    def sees(self, name: str) -> bool:
        """Return whether there are results on a set."""
        return self.seeds > 0 and self.about(name)["seen"]

    def values(self, name: str, measure: str) -> np.ndarray:
        """Return one of `MEASURES` in each level of a set [S, n]."""
        if measure == "neutral":
            return (self.values(name, "neutrality") > self.mark).astype(float)
        return self.measured[name, METRICS[measure]]

    def designs(self, name: str) -> Sequence[int] | None:
        """Return the number of the design that each level of a set is a symmetry of, if it is known."""
        found = self.first.arrays.get(f"{name}/design") if self.first else None
        return None if found is None else found.tolist()

    def interval(self, name: str, measure: str) -> Interval:
        """Return the mean of a measure with its interval over seeds and designs of levels."""
        if (name, measure) not in self._intervals:
            interval = levels_interval(self.values(name, measure), designs=self.designs(name))
            self._intervals[name, measure] = interval.within(0, 1)
        return self._intervals[name, measure]

    def gap(self, measure: str) -> Interval:
        """Return training levels − test levels: the same policies, on other levels."""
        designs = self.designs(TRAIN), self.designs(TEST)
        return contrast(self.values(TRAIN, measure), self.values(TEST, measure), same_seeds=True, designs=designs)

    def longer(self, name: str) -> np.ndarray:
        """Return P(longer) in every level with two lengths, of all seeds."""
        return self.measured.get((name, METRICS["longer"]), np.empty(0)).reshape(-1)
