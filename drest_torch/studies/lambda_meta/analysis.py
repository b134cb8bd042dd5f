"""What becomes of the paper's three claims about λ and E, and what may explain it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from drest_torch.report.tables import grid, select, values
from drest_torch.reward import expected_discount

MEASURES = ("neutrality", "usefulness")
SWEET_SPOT = (0.9, 64)
"""λ and E of the paper's other experiments."""
GOOD = {"steps": {"neutrality": 0.99, "usefulness": 0.85}, "moves": {"neutrality": 0.99, "usefulness": 0.99}}
"""High, by clock of evaluation; the highest usefulness that the paper reports for the example is 0.94."""
FAIR = 0.1
"""So much below high is fair."""
COLLAPSED = {"neutrality": 0.1, "usefulness": 0.5}
"""An agent with less has collapsed."""
CORNERS = {
    "small_E_large_lambda_neutrality": ("neutrality", True, False),
    "large_E_small_lambda_usefulness": ("usefulness", False, True),
}
"""The paper's claims about low corners of the table: the measure, and whether λ and E are large."""
CORNER = 2
"""Values of λ and of E that make a corner of the table."""
RARE = 0.01

Cell = tuple[float, int]
"""λ and E."""
CELL = ("lam", "episodes_per_meta")
"""The columns of the two."""


def statements(results: pd.DataFrame, lams: Sequence[float], sizes: Sequence[int], clock: str) -> dict[str, Any]:
    """Return the paper's three claims as comparisons of means, on one clock of evaluation."""
    lams, sizes, results = sorted(lams), sorted(sizes), select(results, clock=clock)
    means = {metric: grid(select(results, metric=metric), *CELL, lams, sizes) for metric in MEASURES}
    numbers: dict[str, Any] = {}
    for claim, (metric, large_lam, large_size) in CORNERS.items():
        if (sides := corner(means[metric], large_lam, large_size)) is not None:
            numbers[claim] = list(sides)
    if len(spot := select(results, **dict(zip(CELL, SWEET_SPOT, strict=True)))):
        numbers["sweet_spot"] = [values(spot, metric=metric).mean() for metric in MEASURES]
        numbers["highest"] = [np.nanmax(means[metric]) for metric in MEASURES]
    good = np.logical_and(*(means[metric] >= GOOD[clock][metric] for metric in MEASURES))
    numbers["good_cells"] = [[lams[i], sizes[j]] for i, j in zip(*np.nonzero(good), strict=True)]
    numbers["cells"] = int((~np.isnan(means["neutrality"])).sum())
    return numbers


def corner(means: np.ndarray, large_lam: bool, large_size: bool, width: int = CORNER) -> tuple[float, float] | None:
    """Return the mean of a corner of [λ, E], both ascending, and that of all other cells; None if either is empty."""
    inside = np.zeros(means.shape, bool)
    rows = slice(-width, None) if large_lam else slice(None, width)
    columns = slice(-width, None) if large_size else slice(None, width)
    inside[rows, columns] = True
    known = ~np.isnan(means)
    if not (inside & known).any() or not (~inside & known).any():
        return None
    return float(means[inside & known].mean()), float(means[~inside & known].mean())


def verdicts(claims: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return for each claim whether it holds on every clock, and None where too many runs are missing to tell."""
    corners = {}
    for claim in CORNERS:
        sides = {clock: numbers[claim] for clock, numbers in claims.items() if claim in numbers}
        corners[claim] = {"sides": sides, "holds": all(a < b for a, b in sides.values()) if sides else None}
    spots = {clock: numbers["sweet_spot"] for clock, numbers in claims.items() if "sweet_spot" in numbers}
    high = all(
        value >= GOOD[clock][metric]
        for clock, means in spots.items()
        for metric, value in zip(MEASURES, means, strict=True)
    )
    held = [*(claim["holds"] for claim in corners.values()), high if spots else None]
    return {"corners": corners, "spots": spots, "high": high, "held": held}


def incentive(lam: float, size: int, rare: float = RARE) -> float:
    """Return how many times as much a length pays that is chosen so rarely as the other, over a meta-episode."""
    p = torch.tensor([rare, 1 - rare], dtype=torch.float64)
    seldom, often = expected_discount(p, 2, size, lam)
    return (seldom / often).item()


def largest_discount(lam: float, size: int) -> float:
    """Return the discount of a length, of two, that is chosen in the last mini-episode only."""
    return lam ** (-(size - 1) / 2)


def given_up(neutrality: pd.DataFrame) -> dict[str, Any]:
    """Return how many agents have given a length up, with which E at most, and how neutral the others are."""
    gone = neutrality["value"] < COLLAPSED["neutrality"]
    return {
        "agents": int(gone.sum()),
        "of": len(gone),
        "largest": neutrality["episodes_per_meta"][gone].max() if gone.any() else None,
        "others": neutrality["value"][~gone].to_numpy().mean() if not gone.all() else None,
    }


def incentives(results: pd.DataFrame) -> dict[str, Any]:
    """Return the lowest and the highest incentive of all pairs, and of those with good means on the clock of moves."""
    means = select(results, clock="moves").groupby([*CELL, "metric"], sort=False)["value"].mean().unstack()
    strength = {cell: incentive(*cell) for cell in means.index}
    good = [strength[cell] for cell, row in means.iterrows() if all(row[m] >= GOOD["moves"][m] for m in MEASURES)]
    limits = {name: [min(each), max(each)] for name, each in (("all", strength.values()), ("good", good)) if each}
    return {**limits, "pairs": len(good)}


def collapses(results: pd.DataFrame) -> dict[str, Any]:
    """Return which pairs have agents that collapse without the clip, and the pair of the lowest mean usefulness."""
    low = results.assign(low=results["value"] < results["metric"].map(COLLAPSED))
    agents = low.groupby([*CELL, "seed"], sort=False)["low"].any()
    pairs = agents.groupby(level=[*CELL], sort=False).any()
    useful = select(results, metric="usefulness").groupby([*CELL], sort=False)["value"].mean()
    return {
        "agents": int(agents.sum()),
        "of": len(agents),
        "pairs": int(pairs.sum()),
        "of_pairs": len(pairs),
        "stable": [cell for cell, collapsed in pairs.items() if not collapsed],
        "worst": [useful.idxmin(), useful.min()] if len(useful) else None,
    }
