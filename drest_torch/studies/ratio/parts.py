"""Selections of the rows of the study `ratio` by the source of x, and numbers that describe curves over x."""

from __future__ import annotations

import numpy as np
import pandas as pd

from drest_torch.studies.ratio.runs import ANY_REWARD, ASCENT, COLLAPSED
from drest_torch.studies.shared import MOVES, of_part

LAM = 0.9
"""The paper's λ."""
HALF = 0.5
"""The neutrality in bits that agents exceed for all x in `REPORTED`, according to the paper."""
REPORTED = (0.1, 10.0)
UNEXPECTED = 0.1
"""The share of unpredicted collapses above which training counts as unstable."""
BY_COINS = "x by coins"
"""The name in figures of the first source of x."""


def by_coins(rows: pd.DataFrame, clocks: str = MOVES, lam: float = LAM, clip: float = ANY_REWARD) -> pd.DataFrame:
    """Return the rows of agents in the world of Figure 6, by x."""
    return of_part(rows, "coins", clocks=clocks, lam=lam, clip_at=clip).sort_values("x")


def by_divisor(rows: pd.DataFrame, *divisors: str, patience: int = 1) -> pd.DataFrame:
    """Return the rows of agents with these divisors."""
    chosen = of_part(rows, "divisor", patience=patience)
    return chosen[chosen.divisor.isin(divisors)]


def by_ascent(rows: pd.DataFrame, best_of: str) -> pd.DataFrame:
    """Return the rows of gradient ascent on wrong values, with m of the paid coins or of the actual coins."""
    return of_part(rows, "values", by=ASCENT, best_of=best_of)


def sources(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each source of x, trained with the paper's λ and without a clip."""
    return {
        BY_COINS: by_coins(rows),
        "x by a wrong m": by_divisor(rows, "longer"),
        "x without m": by_divisor(rows, "none"),
        "x by wrong values": of_part(rows, "values"),
    }


def reported(rows: pd.DataFrame, clocks: str = MOVES) -> pd.Series:
    """Return the mean neutrality at the paper's λ for x from 0.1 to 10."""
    curve = by_coins(rows, clocks)
    return curve[curve.x.between(*REPORTED)].neutrality


def kinds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each λ and clip of DReST agents in the world of Figure 6, which describes their curves."""
    agents = of_part(rows, "coins", clocks=MOVES)
    agents = agents[agents.lam < 1]
    agents = agents.assign(
        apart=(agents.p_longer - agents.p_longer_predicted).abs(),
        expected=agents.neutrality_predicted < COLLAPSED,
    )
    groups = agents.groupby(["lam", "clip_at"])
    numbers = groups[["apart", "collapsed", "expected"]].mean()
    numbers["lowest"] = groups.neutrality.min()
    numbers["lowest_usefulness"] = groups.usefulness.min()
    numbers["measured"] = [range_text(group) for _, group in groups]
    predicted = of_part(rows, "range").set_index(["lam", "clip_at"])
    numbers["predicted"] = [f"{row.x_low:.3g} to {row.x_high:.3g}" for row in predicted.loc[numbers.index].itertuples()]
    numbers["unstable"] = numbers.collapsed - numbers.expected > UNEXPECTED
    return numbers.reset_index().sort_values(["clip_at", "lam"], ascending=False)


def lower(rows: pd.DataFrame, *, clipped: bool) -> pd.DataFrame:
    """Return the kinds of agents with a lower λ than the paper's."""
    agents = kinds(rows)
    return agents[(agents.lam < LAM) & ((agents.clip_at < ANY_REWARD) == clipped)]


def range_above(x: np.ndarray, values: np.ndarray, mark: float) -> tuple[float, float] | None:
    """Return the ends of the longest interval of ascending x in which values exceed the mark, or None.

    The curve is interpolated linearly in log x. An interval that reaches the first or the last x ends there.
    """
    edges = np.flatnonzero(np.diff(values > mark, prepend=False, append=False))
    if not len(edges):
        return None
    begin, end = max(edges.reshape(-1, 2).tolist(), key=np.ptp)

    def crossing(outside: int, inside: int) -> float:
        if not 0 <= outside < len(x):
            return float(x[inside])
        return float(np.exp(np.interp(mark, values[[outside, inside]], np.log(x[[outside, inside]]))))

    return crossing(begin - 1, begin), crossing(end, end - 1)


def range_text(curve: pd.DataFrame) -> str:
    """Return the range of x with a mean neutrality above half a bit: ``0.08 to 13``."""
    x = curve.x.to_numpy()
    ends = range_above(x, curve.neutrality.to_numpy(), HALF)
    if ends is None:
        return "none"
    text = f"{ends[0]:.3g} to {ends[1]:.3g}"
    return f"all, {text}" if ends == (x[0], x[-1]) else text


def paper_kind(rows: pd.DataFrame) -> pd.Series:
    """Return the row of `kinds` with the paper's λ and without a clip."""
    agents = kinds(rows)
    return agents[(agents.lam == LAM) & (agents.clip_at == ANY_REWARD)].iloc[0]


def distance(rows: pd.DataFrame) -> float:
    """Return the mean distance of P(longer) from its prediction."""
    return float((rows.p_longer - rows.p_longer_predicted).abs().mean())
