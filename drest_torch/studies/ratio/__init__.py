"""The probability of the longer length if it pays x times as much: a closed form, b(x), for three causes of x.

x comes from the coins (Figure 6 of the paper), from an unknown or wrong m (section 7.3), or from wrong values (8.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from drest_torch.studies.ratio.figures import FIGURES, TABLES
from drest_torch.studies.ratio.parts import (
    BY_COINS,
    HALF,
    by_ascent,
    by_coins,
    by_divisor,
    distance,
    lower,
    paper_kind,
    reported,
    sources,
)
from drest_torch.studies.ratio.runs import ANY_REWARD, COLLAPSED, QUICK, Config, jobs, rows
from drest_torch.studies.shapes import falls, rises, within
from drest_torch.studies.shared import of_part

__all__ = ["CLAIMS", "FIGURES", "NUMBERS", "QUICK", "TABLES", "Config", "jobs", "rows"]

CLOSE = 0.05
"""The largest mean distance of P(longer) from a prediction that counts as agreement."""
HIGH = 0.99
"""The least mean usefulness or neutrality that counts as high."""


def wider_range(rows: pd.DataFrame) -> bool:
    """Return whether the predicted range without clipping is wider for every lower λ."""
    ranges = of_part(rows, "range", clip_at=ANY_REWARD).sort_values("lam", ascending=False)
    return rises(ranges.x_high) and falls(ranges.x_low)


def default_is_not_neutral(rows: pd.DataFrame) -> bool:
    """Return whether default agents nearly always take the same length, unless both pay almost the same."""
    curve = by_coins(rows, lam=1.0)
    return bool(curve[~curve.x.between(0.6, 1.6)].neutrality.max() < COLLAPSED)


def longest_trained(rows: pd.DataFrame, measure: str = "neutrality") -> tuple[float, float]:
    """Return the lowest mean of a world at the largest factor, with the paper's schedules and with longer ones."""
    wrong = of_part(rows, "divisor", divisor="longer")
    worst = wrong[wrong.factor == wrong.factor.max()].groupby("patience")[measure].min().sort_index()
    return float(worst.iloc[0]), float(worst.iloc[-1])


def training_longer_helps(rows: pd.DataFrame) -> bool:
    """Return whether longer training brings P(longer) closer to its prediction in every world."""
    wrong = of_part(rows, "divisor", divisor="longer")
    wrong = wrong[wrong.factor == wrong.factor.max()]
    wrong = wrong.assign(distance=(wrong.p_longer - wrong.p_longer_predicted).abs())
    distances = wrong.pivot(index="world", columns="patience", values="distance").sort_index(axis=1)
    return bool((distances.iloc[:, -1] < distances.iloc[:, 0]).all())


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "One curve describes all of these agents. P(longer) is {apart_coins} from b(x) on average where x comes from "
    "coins, {apart_wrong} where m is wrong, {apart_none} where there is no m, and {apart_values} where values are "
    "wrong.": lambda rows: all(distance(points) <= CLOSE for points in sources(rows).values()),
    "P(longer) rises with x, from {p_first} to {p_last}.": lambda rows: rises(by_coins(rows).p_longer, tolerance=0.02),
    "As the paper says, mean neutrality with λ = 0.9 exceeds half a bit for every x from 0.1 to 10; the lowest mean is "
    "{lowest_reported}.": lambda rows: reported(rows).min() > HALF,
    "It does not for every x: neutrality exceeds half a bit for x from {range_measured}, and is predicted to for x "
    "from {range_predicted}.": lambda rows: by_coins(rows).neutrality.iloc[[0, -1]].max() < HALF,
    "Default agents take one length nearly always, unless both pay almost the same.": default_is_not_neutral,
    "m need not be known: divided by the largest return seen so far, rewards make agents useful and neutral in all "
    "{worlds} worlds, with means of at least {seen_usefulness} and {seen_neutrality}.": (
        lambda rows: by_divisor(rows, "seen")[["usefulness", "neutrality"]].min().min() >= HIGH
    ),
    "Wrong values cost no neutrality if m is that of the coins that are paid: P(longer) is one half within "
    "{paid_apart} in {ascents} ascents, while usefulness falls to {paid_usefulness}.": (
        lambda rows: within(by_ascent(rows, "paid").p_longer, 0.5, 0.001)
    ),
    "If m is that of the actual coins, x differs from 1, and neutrality falls to {actual_neutrality}. P(longer) is "
    "within {actual_apart} of b(x) in all {ascents} ascents.": (
        lambda rows: within(by_ascent(rows, "actual").apart, 0, 0.001)
    ),
    "A lower λ widens the predicted range, as the paper suggests.": wider_range,
    "Without a clip, a lower λ makes training collapse: {collapsed} of the agents with a lower λ take one length "
    "nearly always, although that is not predicted.": lambda rows: bool(lower(rows, clipped=False).unstable.all()),
    "With rewards clipped at 5, agents with a lower λ do what is predicted: P(longer) is at most {clipped_apart} from "
    "it, on average over x.": lambda rows: lower(rows, clipped=True).apart.max() <= CLOSE,
    "Longer training brings agents closer to the prediction where the paper's schedules end too early: with an m that "
    "is wrong by a factor of 10, the lowest neutrality of a world rises from {usual} to {patient}.": (
        training_longer_helps
    ),
}


# ----------------------------------------------------------------------------------------- numbers


def _of(source: str) -> Callable[[pd.DataFrame], str]:
    return lambda rows: f"{distance(sources(rows)[source]):.3f}"


def safest(rows: pd.DataFrame) -> pd.Series:
    """Return the lower λ, with clipped rewards, whose worst-case neutrality is the highest."""
    agents = lower(rows, clipped=True)
    return agents.loc[agents.lowest.idxmax()]


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "apart_coins": _of(BY_COINS),
    "apart_wrong": _of("x by a wrong m"),
    "apart_none": _of("x without m"),
    "apart_values": _of("x by wrong values"),
    "p_first": lambda rows: f"{by_coins(rows).p_longer.iloc[0]:.3f}",
    "p_last": lambda rows: f"{by_coins(rows).p_longer.iloc[-1]:.3f}",
    "lowest_reported": lambda rows: f"{reported(rows).min():.3f}",
    "range_predicted": lambda rows: paper_kind(rows).predicted,
    "range_measured": lambda rows: paper_kind(rows).measured,
    "worlds": lambda rows: of_part(rows, "divisor").world.nunique(),
    "seen_usefulness": lambda rows: f"{by_divisor(rows, 'seen').usefulness.min():.3f}",
    "seen_neutrality": lambda rows: f"{by_divisor(rows, 'seen').neutrality.min():.3f}",
    "none_neutrality": lambda rows: f"{by_divisor(rows, 'none').neutrality.min():.3f}",
    "ascents": lambda rows: len(by_ascent(rows, "paid")),
    "paid_apart": lambda rows: f"{(by_ascent(rows, 'paid').p_longer - 0.5).abs().max():.4f}",
    "paid_usefulness": lambda rows: f"{by_ascent(rows, 'paid').usefulness.min():.2f}",
    "actual_neutrality": lambda rows: f"{by_ascent(rows, 'actual').neutrality.min():.2f}",
    "actual_apart": lambda rows: f"{by_ascent(rows, 'actual').apart.max():.4f}",
    "collapsed": lambda rows: f"{lower(rows, clipped=False).collapsed.mean():.0%}",
    "clipped_apart": lambda rows: f"{lower(rows, clipped=True).apart.max():.3f}",
    "usual": lambda rows: f"{longest_trained(rows)[0]:.3f}",
    "patient": lambda rows: f"{longest_trained(rows)[1]:.3f}",
    "safest_lam": lambda rows: f"{safest(rows).lam:g}",
    "safest_neutrality": lambda rows: f"{safest(rows).lowest:.2f}",
    "safest_usefulness": lambda rows: f"{safest(rows).lowest_usefulness:.2f}",
}
