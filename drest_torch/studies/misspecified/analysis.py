"""What agents with a wrong goal come to, and what is predicted of the lengths in closed form (`drest_torch.theory`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.level_set import LevelSet, PaidCoins
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.jobs.job import Job, Result
from drest_torch.statistics.bootstrap import Interval
from drest_torch.statistics.intervals import t_interval
from drest_torch.studies.misspecified.worlds import measure
from drest_torch.studies.results import Results
from drest_torch.theory import balance

SAMPLED = "table"
"""The method whose agents play mini-episodes, by chance."""
CLOSE = 0.01
"""P(longer) is as predicted if it is no further away than this."""
NEUTRAL = 0.9
"""An agent is neutral on levels if the mean of its neutrality there is at least this."""
LOST, HELD, PURSUED = 0.6, 0.9, 0.9
"""A goal is lost if usefulness is at most LOST where the feature misleads, and at least PURSUED by the values of the
feature; it is held if usefulness is at least HELD."""


def limits() -> dict[str, float]:
    """Return these limits by their names."""
    return {"CLOSE": CLOSE, "NEUTRAL": NEUTRAL, "LOST": LOST, "HELD": HELD, "PURSUED": PURSUED}


def ratio(name: str, pays: str, divisor: str, gamma: float = 1.0) -> float:
    """Return x in a world with two lengths: what the longer offers in paid coins over its divisor, by the shorter's."""
    levels, coins = LevelSet(compile_levels([world(name)])), PaidCoins(pays, divisor)
    paid = solve(coins.paid(levels.mdp), gamma).best_return
    shorter, longer = (paid / coins.optima(levels, gamma).best_return)[0].tolist()
    return float(longer / shorter)


@dataclass(frozen=True)
class Row:
    """A world in which wrong values are paid, with what is predicted and found."""

    method: str
    world: str
    pays: str
    divisor: str
    x: float
    predicted: float
    found: float
    neutrality: float
    usefulness: float
    proxy: float
    """The usefulness by the values that are paid."""

    @classmethod
    def each(cls, job: Job, result: Result) -> list[Row]:
        """Return the rows of a finished run: that of one world, or of several side by side."""
        spec, arrays = job.spec, result.arrays
        if "worlds" in spec:
            method, worlds, reward = "exact", spec["worlds"], spec["reward"]
            pays, divisor = spec["pays"], spec["best_of"]
        else:
            config = spec["config"]
            method, worlds, reward = config["algo"]["name"], [config["levels"]["name"]], config["reward"]
            method = SAMPLED if method == "tabular" else "network"
            pays, divisor = reward["pays"], reward["best_of"]
            policy = torch.from_numpy(arrays["train/policy"]).double()
            arrays = measure(worlds, policy, PaidCoins(pays, divisor), reward["gamma"])
        rows = []
        for index, name in enumerate(worlds):
            x = ratio(name, pays, divisor, reward["gamma"])
            predicted = balance(1.0, x, reward["lam"], reward["episodes_per_meta"]).item()
            numbers = (float(arrays[metric][index]) for metric in ("neutrality", "usefulness", "proxy"))
            rows.append(cls(method, name, pays, divisor, x, predicted, float(arrays["p_length"][index, -1]), *numbers))
        return rows

    @property
    def error(self) -> float:
        """Return how far the prediction is from what was found."""
        return abs(self.found - self.predicted)

    def findings(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return dict(vars(self))

    def tidy(self, results: Results) -> None:
        """Add the row to the study's tidy table."""
        of: dict[str, Any] = {"variant": self.method, "level": self.world}
        of |= {"pays": self.pays, "divisor": self.divisor}
        for metric in ("x", "predicted", "found", "neutrality", "usefulness", "proxy"):
            results.add(np.array([getattr(self, metric)]), metric, **of)


def apart(rows: list[Row], divisor: str) -> dict[str, Any] | None:
    """Return how far the predictions are from what exact gradients found with a divisor, and the ranges of measures."""
    several = [row for row in rows if row.divisor == divisor and row.method != SAMPLED]
    if not several:
        return None
    neutralities = [row.neutrality for row in several]
    return {
        "runs": len(several),
        "close": sum(row.error <= CLOSE for row in several),
        "most": max(row.error for row in several),
        "neutrality": [min(neutralities), max(neutralities)],
        "usefulness": [min(row.usefulness for row in several), max(row.usefulness for row in several)],
    }


@dataclass(frozen=True)
class Kind:
    """Agents of one title, trained where a feature coincides with value; ``found`` has the arrays of each seed."""

    title: str
    feature: str
    drest: bool
    found: list[dict[str, np.ndarray]]

    @property
    def seeds(self) -> int:
        return len(self.found)

    def mean(self, name: str) -> np.ndarray:
        """Return the mean over levels of a measure, for each seed."""
        return np.array([arrays[name].mean() for arrays in self.found])

    @cached_property
    def outcomes(self) -> list[str]:
        """Return for each seed what became of the goal where the feature misleads: lost, held, or void for neither."""
        pairs = zip(self.mean("reversed/usefulness"), self.mean("reversed/proxy"), strict=True)
        return [
            "lost" if actual <= LOST and proxy >= PURSUED else "held" if actual >= HELD else "void"
            for actual, proxy in pairs
        ]

    @property
    def neutral(self) -> np.ndarray:
        """Return for each seed whether it is neutral where the feature misleads."""
        return self.mean("reversed/neutrality") >= NEUTRAL

    def count(self, outcome: str, neutral: bool | None = None) -> int:
        """Return the number of seeds with an outcome, of those that are neutral or not, or of all."""
        both = zip(self.outcomes, self.neutral, strict=True)
        return sum(what == outcome and neutral in (None, bool(is_neutral)) for what, is_neutral in both)

    def interval(self, name: str) -> Interval:
        """Return the mean of a measure with its interval over seeds."""
        return t_interval(self.mean(name)).within(0.0, 1.0)

    def change(self) -> Interval:
        """Return how much more neutral the seeds are where the feature misleads than where it coincides."""
        return t_interval(self.mean("reversed/neutrality") - self.mean("coincides/neutrality"))

    def findings(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        names = sorted(self.found[0])
        change = self.change()
        return {
            "seeds": self.seeds,
            **{name: float(self.mean(name).mean()) for name in names},
            "change": [change.estimate, change.low, change.high],
            **{outcome: self.count(outcome) for outcome in ("lost", "held", "void")},
            "lost_neutral": self.count("lost", neutral=True),
            "held_neutral": self.count("held", neutral=True),
        }

    def tidy(self, results: Results) -> None:
        """Add the measures to the study's tidy table."""
        for name in self.found[0]:
            order, metric = name.split("/")
            results.add(self.mean(name), metric, variant=self.title, split=order)
