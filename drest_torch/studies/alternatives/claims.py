"""Claims of the study of alternatives, and the numbers in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from drest_torch.studies.alternatives.figures import by_strength, compared, of_part
from drest_torch.studies.alternatives.runs import DREST

PAY_FOR_BOTH = ("U + w N", "U + w Gini", "U × N", "U, N ≥ h")
"""Objectives that pay for usefulness and for neutrality, or bound both."""
SHARES, BOUND = "coins, P ≥ h/k", "coins, N ≥ h"
BEHIND = (SHARES, "default ÷ m")
"""Objectives that are behind DReST, in addition to all prices."""
LEVEL = 0.015
"""The largest difference at which means of usefulness and neutrality count as equal."""
FAR = 0.1
"""The difference from DReST's usefulness or neutrality that counts as large."""
HALF = 0.5
"""The neutrality in bits below which an agent is far from neutral."""
SIGNIFICANT = 0.05
"""The p value below which a difference counts, after the correction for all comparisons."""
MET = 0.005
"""The largest violation at which a bound counts as met."""


def differences(rows: pd.DataFrame, objectives: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the comparisons with DReST by objective; raise KeyError if one of ``objectives`` is missing."""
    comparisons = of_part(rows, "comparison").set_index("objective")
    if objectives is None:
        return comparisons
    return comparisons.loc[[*objectives]]


def behind(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of objectives that are behind DReST."""
    comparisons = differences(rows)
    prices = comparisons.index[comparisons.family == "price"]
    return differences(rows, [*prices, *BEHIND])


def clearly_behind(rows: pd.DataFrame) -> bool:
    """Return whether all these objectives are behind DReST after the correction for all comparisons."""
    comparisons = behind(rows)
    return bool(((comparisons.high < 0) & (comparisons.p < SIGNIFICANT)).all())


def best_scores(rows: pd.DataFrame) -> pd.Series:
    """Return the mean of usefulness and neutrality of each objective at its best strength."""
    points = by_strength(rows)
    scores = points[["usefulness", "neutrality"]].mean(axis=1)
    return scores.groupby(points.objective).max()


def best_apart(rows: pd.DataFrame) -> float:
    """Return the largest distance from DReST of the objectives that pay for both measures, at their best strengths."""
    best = best_scores(rows)
    return float((best[[*PAY_FOR_BOTH]] - best[DREST]).abs().max())


def smaller_of_both(rows: pd.DataFrame, family: str) -> float:
    """Return the smaller of usefulness and neutrality at the strength of a family that maximises it."""
    points = by_strength(rows)
    strengths = points[points.family == family]
    if strengths.empty:
        raise LookupError(f"no rows of the family {family}")
    return float(strengths[["usefulness", "neutrality"]].min(axis=1).max())


def mean_of(rows: pd.DataFrame, objective: str, measure: str) -> float:
    """Return the mean of a measure over seeds at the compared strength."""
    return float(compared(rows).groupby("objective")[measure].mean()[objective])


def one_length_always(rows: pd.DataFrame) -> bool:
    """Return whether the bound on each P(l) is nearly met on average, although most levels always have the same
    length."""
    return mean_of(rows, SHARES, "missed_training") <= FAR and mean_of(rows, SHARES, "always") >= 0.8


def short_levels(rows: pd.DataFrame) -> pd.Series:
    """Return the share of levels that are not neutral, under a bound on mean neutrality and with DReST."""
    return compared(rows).groupby("objective").short.mean()[[BOUND, DREST]]


def percent(share: float) -> str:
    """Return a share as text: ``98 %``."""
    return f"{100 * share:.0f} %"


def largest_violation(rows: pd.DataFrame) -> pd.Series:
    """Return the mean violation of each bound on unseen levels, the largest first."""
    bounds = compared(rows).dropna(subset=["missed"])
    return bounds.groupby("label").missed.mean().sort_values(ascending=False)


def not_compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of agents at further strengths, which only appear in curves."""
    ends = of_part(rows, "end")
    return ends[~ends.compared.astype(bool) & ~ends.bit.astype(bool)]


def with_bit(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means of agents with a private bit, by objective."""
    end = of_part(rows, "end")
    agents = end[end.bit.astype(bool)]
    if agents.empty:
        raise LookupError("no rows of agents with a private bit")
    return agents.groupby("objective")[[*BOTH, "given_bit"]].mean()


BOTH = ("usefulness", "neutrality")


def a_bit_helps(rows: pd.DataFrame) -> bool:
    """Return whether a private bit makes agents more useful and more neutral, but far from neutral given the bit."""
    with_bits = with_bit(rows)
    without = compared(rows).groupby("objective")[[*BOTH]].mean().loc[with_bits.index]
    return bool((with_bits[[*BOTH]] > without).all(axis=None) and with_bits.given_bit.max() < HALF)


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "Objectives that pay for usefulness and neutrality are level with DReST: the mean of the two differs by at most "
    "{both_apart}.": lambda rows: differences(rows, PAY_FOR_BOTH).apart.abs().max() <= LEVEL,
    "At their best strengths they are level with it, too: the mean differs by at most {best_apart}.": (
        lambda rows: best_apart(rows) <= LEVEL
    ),
    "No alternative is ahead of DReST by more than {ahead}; after the correction for {comparisons} comparisons, the "
    "number ahead at p < 0.05 is {better}.": lambda rows: differences(rows).apart.max() <= LEVEL,
    "Every price on divergence or entropy, the bound on each P(l) and the default reward are behind DReST at p < 0.05 "
    "after the correction, by {behind} at least.": clearly_behind,
    "A price on divergence or entropy makes agents useful or neutral, and at no strength both: the smaller of the two "
    "is at most {price_least}, where DReST has {drest_least}.": (
        lambda rows: smaller_of_both(rows, "price") < smaller_of_both(rows, DREST) - FAR
    ),
    "A bound on each mean P(l) does not make agents neutral: the mean over training levels misses it by "
    "{shares_missed} of 1/k, while on {always} of the unseen levels one length has a probability of at least 99 %.": (
        one_length_always
    ),
    "Means hide levels that are short of neutral: with a bound of 0.95 on the mean, neutrality is below 0.9 bits on "
    "{short_bound} of the unseen levels, and with DReST on {short_drest}.": lambda rows: (
        short_levels(rows).min() >= FAR
    ),
    "Not every bound is met on unseen levels: {missed_by} misses it by {missed}.": (
        lambda rows: largest_violation(rows).max() > MET
    ),
    "A private bit makes agents more useful and more neutral. Given the bit, they are far from neutral: neutrality is "
    "then at most {given_bit} bits.": a_bit_helps,
}
NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "seeds": lambda rows: compared(rows).groupby("objective").seed.nunique().max(),
    "seeds_at_other_strengths": lambda rows: not_compared(rows).groupby("label").seed.nunique().max(),
    "both_apart": lambda rows: f"{differences(rows, PAY_FOR_BOTH).apart.abs().max():.3f}",
    "best_apart": lambda rows: f"{best_apart(rows):.3f}",
    "ahead": lambda rows: f"{differences(rows).apart.max():.3f}",
    "comparisons": lambda rows: len(differences(rows)),
    "better": lambda rows: ((differences(rows).apart > 0) & (differences(rows).p < SIGNIFICANT)).sum(),
    "behind": lambda rows: f"{-behind(rows).apart.max():.2f}",
    "price_least": lambda rows: f"{smaller_of_both(rows, 'price'):.2f}",
    "drest_least": lambda rows: f"{smaller_of_both(rows, DREST):.2f}",
    "shares_missed": lambda rows: f"{mean_of(rows, SHARES, 'missed_training'):.2f}",
    "always": lambda rows: percent(mean_of(rows, SHARES, "always")),
    "short_bound": lambda rows: percent(short_levels(rows)[BOUND]),
    "short_drest": lambda rows: percent(short_levels(rows)[DREST]),
    "missed_by": lambda rows: f"“{largest_violation(rows).index[0]}”",
    "missed": lambda rows: f"{largest_violation(rows).iloc[0]:.3f}",
    "given_bit": lambda rows: f"{with_bit(rows).given_bit.max():.2f}",
}
