"""What agents come to for each x, and what is predicted of them in closed form (`drest_torch.theory`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from drest_torch.metrics import neutrality
from drest_torch.report.tables import select, values
from drest_torch.theory import balance, best_of_two, value_for

if TYPE_CHECKING:
    from drest_torch.studies.lopsided.study import Config

METRICS = ("p_longer", "neutrality", "usefulness")
PREDICTED = METRICS[:2]
"""The metrics that the theory predicts."""
MARK = 0.5
"""Neutrality in bits, and the values of x for which the paper reports more than that at its λ."""
REPORTED = (0.1, 10.0)
SMALLER = 0.110028
"""The smaller probability where neutrality is ½ bit."""
COLLAPSED = 0.1
"""Neutrality below this: all but one length."""
MANY = 0.1
"""A share of agents that choose all but one length though that is not predicted: training has collapsed."""
CLOSE = 0.05
"""P(longer) is as predicted if it is no further away than this, on average over x."""


@dataclass(frozen=True)
class Kind:
    """Agents that differ in nothing but x: the clock of training, λ (1 with the default reward), and the clip."""

    clock: str
    lam: float
    clip: float | None

    @property
    def default(self) -> bool:
        return self.lam == 1

    @property
    def label(self) -> str:
        clipped = "" if self.clip is None else f"-clip={self.clip:g}"
        return f"{self.clock}-{'default' if self.default else f'lambda={self.lam:g}'}{clipped}"


@dataclass(frozen=True)
class Curves:
    """The agents of a kind at the end of training, evaluated on one clock: X values of x, A agents."""

    kind: Kind
    clock: str
    """Of evaluation."""
    episodes: int
    """E"""
    x: np.ndarray
    """[X]"""
    p_longer: np.ndarray
    """[X, A]"""
    neutrality: np.ndarray
    """[X, A] bits"""
    usefulness: np.ndarray
    """[X, A]"""

    @property
    def pair(self) -> str:
        """The clocks of training and of evaluation."""
        return f"{self.kind.clock} / {self.clock}"

    def agents(self, metric: str) -> np.ndarray:
        """Return a metric of every agent [X, A]."""
        values: np.ndarray = getattr(self, metric)
        return values

    def predicted(self, metric: str) -> np.ndarray:
        """Return what is predicted of a metric [X]."""
        return predicted(self.x, self.kind.lam, self.episodes, self.kind.clip)[PREDICTED.index(metric)]

    def apart(self, metric: str = "p_longer") -> np.ndarray:
        """Return the distance of the agents' mean from the prediction [X]."""
        return np.abs(self.agents(metric).mean(1) - self.predicted(metric))

    def lowest_as_claimed(self) -> float | None:
        """Return the lowest mean neutrality for those values of x that the paper speaks of."""
        low, high = REPORTED
        claimed = (self.x >= low * (1 - 1e-9)) & (self.x <= high * (1 + 1e-9))
        return float(self.neutrality[claimed].mean(1).min()) if claimed.any() else None

    def collapsed(self) -> tuple[float, float]:
        """Return the share of agents, over all x, that choose all but one length, and the share that is predicted."""
        return float((self.neutrality < COLLAPSED).mean()), float((self.predicted("neutrality") < COLLAPSED).mean())

    def unstable(self) -> bool:
        """Return whether many agents choose all but one length though that is not predicted."""
        share, expected = self.collapsed()
        return share - expected > MANY

    def range(self) -> list[float] | None:
        """Return the values of x between which mean neutrality is above ½ bit."""
        return range_above(self.x, self.neutrality.mean(1), MARK)

    def predicted_range(self) -> tuple[float, float]:
        """Return the values of x between which it is predicted to be."""
        return predicted_range(self.kind.lam, self.episodes, self.kind.clip)

    def summary(self) -> dict[str, Any]:
        """Return the curves in numbers."""
        mean = self.neutrality.mean(1)
        return {
            "above_half_bit": self.range(),
            "above_half_bit_predicted": self.predicted_range(),
            "lowest_neutrality_as_claimed": self.lowest_as_claimed(),
            "lowest_neutrality": mean.min(),
            "usefulness": self.usefulness.mean(),
            "lowest_usefulness": self.usefulness.mean(1).min(),
            "collapsed_and_predicted": self.collapsed(),
            "p_longer_apart": self.apart().mean(),
        }


def curves_of(results: pd.DataFrame, kind: Kind, clock: str, episodes: int) -> Curves | None:
    """Return the agents of a kind on one clock of evaluation; None if none of their runs has finished."""
    rows = select(results, trained_on=kind.clock, clock=clock, lam=kind.lam, clipped=kind.clip is not None)
    if rows.empty:
        return None
    x = rows["x"].unique()
    return Curves(kind, clock, episodes, x, *(values(rows, metric=metric).reshape(len(x), -1) for metric in METRICS))


# ---------------------------------------------------------------------------------------- prediction


def predicted(x: np.ndarray, lam: float, episodes: int, clip: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Return P(longer) and neutrality [X] of agents that come to rest."""
    return _predicted(tuple(x.tolist()), lam, episodes, clip)


@lru_cache
def _predicted(x: tuple[float, ...], lam: float, episodes: int, clip: float | None) -> tuple[np.ndarray, np.ndarray]:
    return _with_neutrality(balance(1.0, torch.tensor(x, dtype=torch.float64), lam, episodes, clip))


def best(x: np.ndarray, lam: float, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return P(longer) and neutrality [X] of policies with the largest expected return of a whole meta-episode."""
    return _with_neutrality(best_of_two(1.0, torch.from_numpy(x), lam, episodes))


def _with_neutrality(p: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    return p.numpy(), neutrality(torch.stack((1 - p, p), -1)).numpy()


def predicted_range(lam: float, episodes: int, clip: float | None) -> tuple[float, float]:
    """Return the values of x between which neutrality is predicted to be above ½ bit."""
    low, high = (value_for(p, lam, episodes, clip) for p in (SMALLER, 1 - SMALLER))
    return low, high


def range_above(x: np.ndarray, values: np.ndarray, mark: float) -> list[float] | None:
    """Return the ends of the longest stretch of x, ascending, in which values are above the mark, or None.

    Between two values of x the curve is a straight line in log x. At the first or last x the stretch ends for
    want of more.
    """
    above = values > mark
    edges = np.flatnonzero(np.diff(np.concatenate(([False], above, [False])).astype(int)))
    if not len(edges):
        return None
    begin, end = max(edges.reshape(-1, 2).tolist(), key=lambda stretch: stretch[1] - stretch[0])

    def crossing(outside: int, inside: int) -> float:
        if not 0 <= outside < len(x):
            return float(x[inside])
        share = (values[inside] - mark) / (values[inside] - values[outside])
        return float(x[inside] * (x[outside] / x[inside]) ** share)

    return [crossing(begin - 1, begin), crossing(end, end - 1)]


# ------------------------------------------------------------------- what the sentences are made of


def first_names(first: Curves) -> dict[str, Any]:
    """Return how the paper's agents compare with its claim, with the prediction, and with the best policies."""
    apart, mean_p = first.apart(), first.p_longer.mean(1)
    whole, _ = best(first.x, first.kind.lam, first.episodes)
    low = first.lowest_as_claimed()
    return {
        "low": low,
        "holds": None if low is None else low > MARK,
        "apart": apart.mean(),
        "most": apart.max(),
        "most_at": first.x[apart.argmax()],
        "apart_from_best": np.abs(mean_p - whole).mean(),
        "x": [first.x[0], first.x[-1]],
        "best": [whole[0], whole[-1]],
    }


def lower_names(cfg: Config, main: Sequence[Curves]) -> dict[str, Any]:
    """Return what a lower λ is predicted to do, and what it does, without a clip and with it."""
    ranges = [predicted_range(lam, cfg.training.episodes_per_meta, None) for lam in cfg.lams]
    wider = all(low < ranges[0][0] and high > ranges[0][1] for low, high in ranges[1:])
    lower = [curves for curves in main if curves.kind.lam < cfg.lams[0]]
    free = [curves for curves in lower if curves.kind.clip is None]
    clipped = [curves for curves in lower if curves.kind.clip is not None]
    safest = max(clipped, key=lambda curves: curves.neutrality.mean(1).min(), default=None)
    return {
        "wider": wider,
        "free": len(free),
        "unstable": [{"lam": curves.kind.lam, "share": curves.collapsed()[0]} for curves in free if curves.unstable()],
        "apart": max((curves.apart().mean() for curves in clipped), default=None),
        "best": None if safest is None else {"lam": safest.kind.lam, **safest.summary()},
    }


def clock_names(curves: Curves) -> dict[str, Any]:
    """Return how useful the agents of a pair of clocks are, and how far from the prediction."""
    return {
        "pair": curves.pair,
        "same": curves.kind.clock == curves.clock,
        "usefulness": curves.usefulness.mean(),
        "apart": curves.apart().mean(),
    }
