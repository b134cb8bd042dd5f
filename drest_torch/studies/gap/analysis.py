"""What agents do in forks, kind by kind, and what table agents do for each x beside what is predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from drest_torch.choices import gap
from drest_torch.choices.forks import designs
from drest_torch.report.tables import median_range
from drest_torch.report.template import num, percent
from drest_torch.studies.results import Results
from drest_torch.theory import balance, value_for

PASSES = 0.95
"""The least share of forks on which the trio has to pass."""
SETTLED = 0.99
"""P(long) at which the length is taken to be settled."""
IN_RANGE = 3.0
"""Trained agents have seen coins from 1 to this."""
METRICS = ("p_better", "p_long", "p_equal", "same", "cross")


@dataclass(frozen=True)
class Kind:
    """Agents of one kind: what they were paid, and the arrays of each of their runs."""

    title: str
    reward: str
    arrays: Sequence[dict[str, np.ndarray]]

    @property
    def chances(self) -> list[np.ndarray]:
        """[Z, S, D, 5] for each seed."""
        return [arrays["forks"] for arrays in self.arrays]

    @property
    def settings(self) -> int:
        """The number of settings of the private bits."""
        return len(self.chances[0])

    @property
    def divided(self) -> bool:
        return "÷" in self.reward

    @cached_property
    def gaps(self) -> list[gap.Gap]:
        """Ex ante, for each seed."""
        return [gap.gap(chances.mean(0)) for chances in self.chances]

    @cached_property
    def controls(self) -> list[tuple[float, gap.Gap]]:
        """The softmax of coins that is as deterministic as each seed: its steepness, and what it does."""
        found = (gap.control(chances.mean(0)) for chances in self.chances)
        return [(steepness, gap.gap(chances)) for steepness, chances in found]

    @property
    def trios(self) -> list[float]:
        return [float(found.passes().mean()) for found in self.gaps]

    @property
    def reached(self) -> int:
        """How many seeds pass the trio on enough forks."""
        return sum(trio >= PASSES for trio in self.trios)

    @property
    def ratios(self) -> list[float]:
        return [found.ratio for found in self.gaps if not np.isnan(found.ratio)]

    @property
    def control_error(self) -> float:
        """How far the softmax's e_x / e_s is from 1, at most."""
        return max((abs(found.ratio - 1) for _, found in self.controls if not np.isnan(found.ratio)), default=0.0)

    @property
    def curve(self) -> np.ndarray:
        """[X, seeds] P(long) by b / a, the mean over forks."""
        return np.stack([found.curve.mean(1) for found in self.gaps], -1)

    def values(self, name: str) -> list[float]:
        """Return the mean over forks of each seed; void forks are left out, NaN where all are."""
        return [
            float(np.nanmean(of)) if (~np.isnan(of := getattr(found, name))).any() else np.nan for found in self.gaps
        ]

    def sentence(self) -> str:
        return f"{self.title}: {self.reached} of {len(self.gaps)} seeds"

    def quote(self) -> str:
        """Return medians over seeds, lowest and highest in brackets."""
        ratio = f"e_x / e_s {median_range(self.ratios)}" if self.ratios else "no e_x / e_s"
        return f"trio on {median_range(self.trios, 2)} of the forks; {ratio}"

    def given_sentence(self) -> str:
        """Return how often the trio passes ex ante and given the private bits."""
        given = [gap.gap(each).passes().mean() for chances in self.chances for each in chances]
        ex_ante, after = percent(float(np.mean(self.trios))), percent(float(np.mean(given)))
        return f"{self.title}: {ex_ante} of the forks ex ante, {after} given its private bits"

    def against_balance(self, lam: float, episodes: int = 64) -> dict[str, Any]:
        """Return how far P(long) is from b(x), on average over the values of b / a that training has seen."""
        x = np.array(gap.RATIOS)
        near = (x >= 1 / IN_RANGE) & (x <= IN_RANGE)
        wanted = balance(1.0, torch.from_numpy(x), lam, episodes).numpy()
        apart = np.abs(self.curve.mean(1) - wanted)
        ends = (self.curve.mean(1)[near][[0, -1]], wanted[near][[0, -1]])
        return {"apart": float(apart[near].mean()), "ends": ends[0].tolist(), "ends_predicted": ends[1].tolist()}

    def void_lines(self) -> list[str]:
        """Return one sentence for each reason for which forks are void."""
        counts: Counter[str] = Counter()
        for found in self.gaps:
            counts.update(found.void)
        forks = sum(len(found.p_long) for found in self.gaps)
        return [f"{self.title}: {count} of {forks} forks: {reason}." for reason, count in counts.items()]

    def findings(self) -> dict[str, Any]:
        """Return everything as JSON values, seed by seed."""
        seeds = [gap.summary(chances) for chances in self.chances]
        return {"title": self.title, "reward": self.reward, "reached": self.reached, "seeds": seeds}

    def tidy(self, results: Results) -> None:
        """Add what every seed does in every fork to the tidy table."""
        names = [design.level.name for design in designs()]
        measured = {name: np.stack([getattr(found, name) for found in self.gaps]) for name in METRICS}
        measured["trio"] = np.stack([found.passes() for found in self.gaps])
        for name, array in measured.items():
            results.add(array, name, variant=self.title, split="forks", level=names)
        for name in ("usefulness", "neutrality"):
            if f"test/{name}" in self.arrays[0]:
                means = np.array([arrays[f"test/{name}"].mean() for arrays in self.arrays])
                results.add(means, name, variant=self.title, split="test", level="all")


@dataclass(frozen=True)
class Tables:
    """Table agents whose coins are not divided by m: the longer length offers x, the shorter 1."""

    episodes: int
    lam: float
    x: np.ndarray
    p_long: np.ndarray
    """[X, agents]"""

    def predicted(self, x: np.ndarray) -> np.ndarray:
        """Return b(x)."""
        found: np.ndarray = balance(1.0, torch.from_numpy(x), self.lam, self.episodes).numpy()
        return found

    @property
    def apart(self) -> float:
        """The mean distance of the agents' mean from b(x)."""
        return float(np.abs(self.p_long.mean(1) - self.predicted(self.x)).mean())

    @property
    def critical(self) -> float:
        """x_c = λ^(−(E−1)/2), from which on only the longer length is chosen."""
        return float(self.lam ** (-(self.episodes - 1) / 2))

    @property
    def settled(self) -> float | None:
        """The first x at which P(long) reaches 0.99, interpolated in log x and logit P; None if none does."""
        p = np.clip(self.p_long.mean(1), 1e-9, 1 - 1e-9)
        above = np.flatnonzero((p >= SETTLED) & (self.x > 1))
        if not len(above) or above[0] == 0:
            return None
        logit, first = np.log(p) - np.log1p(-p), int(above[0])
        mark, pair = np.log(SETTLED / (1 - SETTLED)), slice(first - 1, first + 1)
        return float(np.exp(np.interp(mark, logit[pair], np.log(self.x[pair]))))

    @property
    def settled_predicted(self) -> float:
        return value_for(SETTLED, self.lam, self.episodes)

    def sentence(self) -> str:
        """Return where the range ends."""
        return f"E = {self.episodes}: {num(self.settled, 1)} (predicted {num(self.settled_predicted, 1)})"

    def findings(self) -> dict[str, Any]:
        return {
            "episodes": self.episodes,
            "x": self.x.tolist(),
            "p_long": self.p_long.mean(1).tolist(),
            "predicted": self.predicted(self.x).tolist(),
            "apart": self.apart,
            "settled": self.settled,
            "settled_predicted": self.settled_predicted,
            "x_c": self.critical,
        }
