"""How far the paper's numbers are reproduced, why agents collapse on the clock of every step, and what mends that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from drest_torch.jobs.job import Result
from drest_torch.jobs.tabular_job import p_longest
from drest_torch.report.tables import select, spread, values
from drest_torch.statistics.bootstrap import standard_errors_apart
from drest_torch.studies.clock_pairs import MOST, summary

if TYPE_CHECKING:
    from drest_torch.studies.example.study import Config

REPORTED = {
    "default": {"neutrality": (0.199, 0.043), "usefulness": (0.9364, 0.0096)},
    "drest": {"neutrality": (0.9945, 0.0052), "usefulness": (0.900, 0.011)},
}
"""Mean and standard deviation of ten agents at the end of training, in the caption of Figure 3."""
REPORTED_AGENTS = 10
REPORTED_P_LONGER = 0.97
"""Of the default agents."""
CLOSE = 2
"""A mean is that of the paper if it is at most so many standard errors of the difference apart."""
GIVEN_UP = 0.1
"""A length is given up when the median agent's probability of it is below this share of that before training."""


def comparisons(ends: pd.DataFrame, reward: str, few: int) -> list[dict[str, Any]]:
    """Return both measures of the first agents, and of all of them, beside the paper's."""
    rows = []
    for measure, reported in REPORTED[reward].items():
        final = values(ends, metric=measure)
        for sample in (final[:few], final):
            apart = standard_errors(sample, reported)
            row = {"reward": reward, "measure": measure, "agents": len(sample)}
            rows.append(row | {"mean": sample.mean(), "sd": spread(sample), "standard_errors": apart})
    return rows


def standard_errors(sample: np.ndarray, reported: tuple[float, float]) -> float:
    """Return how far a mean is from the paper's; NaN where one agent has no standard deviation."""
    if len(sample) < 2:
        return float("nan")
    return standard_errors_apart(sample.mean(), spread(sample), len(sample), *reported, REPORTED_AGENTS)


def default_spread(compared: list[dict[str, Any]], few: int) -> dict[str, float] | None:
    """Return how far the neutrality of default agents is spread, beside what is reported, for as many agents."""
    reported = REPORTED["default"]["neutrality"][1]
    for row in compared:
        if (row["reward"], row["measure"], row["agents"]) == ("default", "neutrality", few):
            return {"ours": row["sd"], "reported": reported, "ratio": row["sd"] / reported}
    return None


def reproduced(compared: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many of the paper's means those of the first agents are close to."""
    first = [bool(row["standard_errors"] <= CLOSE) for row in compared[::2]]
    return {"close": sum(first), "of": len(first)}


def default_lengths(ends: pd.DataFrame) -> dict[str, Any] | None:
    """Return what share of the default agents prefers the longer trajectory, and the neutrality of either kind."""
    if ends.empty:
        return None
    neutrality, longer = values(ends, metric="neutrality"), values(ends, metric="p_longer") > 0.5
    groups = {"neutrality": neutrality[longer], "neutrality_shorter": neutrality[~longer]}
    means = {name: [group.mean(), spread(group)] if len(group) else None for name, group in groups.items()}
    share = longer.mean()
    return {"share": share, **means, "all_of_ten": share**REPORTED_AGENTS}


def collapse(result: Result) -> dict[str, Any]:
    """Return when the median agent gives the longer trajectory up, and what each length collects by then.

    ``share_longer`` and ``share_shorter`` are shares of the best return given the length, as means over agents.
    """
    median = np.median(p_longest(result, "steps"), axis=1)
    shares = result.arrays["steps/share_of_best"].astype(float).mean(1)
    numbers: dict[str, Any] = {"first_p_longer": median[0], "final_p_longer": median[-1], "mini_episodes": None}
    often = median >= GIVEN_UP * median[0]
    if not often[-1]:
        time = int(np.flatnonzero(often)[-1]) + 1
        numbers["mini_episodes"] = int(result.arrays["episodes"][time])
        numbers["share_longer"], numbers["share_shorter"] = shares[time, -1], shares[time, 0]
    return numbers


def cures(cfg: Config, results: pd.DataFrame) -> dict[str, Any]:
    """Return what each change to the training comes to: its end, its cost, and whether it mends the collapse."""
    outcomes = {}
    for name, changes in cfg.cures.items():
        ends = select(results, change=name, reward="drest")
        if not ends.empty:
            numbers = summary(ends)
            outcomes[name] = numbers | {
                "mini_episodes": values(ends, metric="mini_episodes").mean(),
                "mends": bool(numbers["both"] >= MOST),
                "behaviour_on_random": changes.get("gradient") == "behaviour" and "random_episodes" in changes,
            }
    return outcomes
