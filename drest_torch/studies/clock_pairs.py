"""The two rewards on pairs of clocks: what the studies of tabular agents on single worlds share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.envs.levels import world
from drest_torch.evaluation.tabular import Tables
from drest_torch.jobs.job import Result
from drest_torch.jobs.tabular_job import last, p_longest
from drest_torch.report.blocks import Plot
from drest_torch.report.plots import THREE_ABREAST, Curves, policy_plot, training_plot
from drest_torch.report.tables import Column, at_least, interval, mean, spread, values
from drest_torch.studies.results import Results

REWARDS = {"default": "default", "drest": "DReST"}
CLOCKS = {("moves", "steps"): "moves / steps", ("moves", "moves"): "moves / moves", ("steps", "steps"): "steps / steps"}
"""The name of a clock of training and a clock of evaluation."""
RANDOM_FIRST = "steps / steps, random play first"
"""The name of the last pair for agents that play at random for a while before the paper's schedules begin."""
MARK = 0.99
"""An agent is useful and neutral if both its usefulness and its neutrality are at least this."""
MOST = 0.9
"""A group of agents is useful and neutral if at least this share of it is."""
COLLAPSED = 0.1
"""An agent with less neutrality has collapsed onto one length."""

FACTORS = ("clocks", "reward")
"""Columns of the results of studies that use `add_ends`."""
CURVES = {"p_longer": "P(longer)", "neutrality": "neutrality", "usefulness": "usefulness"}
"""The plots of the paper's Figure 3 and their titles."""
END_COLUMNS = [
    Column("neutrality", interval(least=0, most=1), {"metric": "neutrality"}),
    Column("usefulness", interval(least=0, most=1), {"metric": "usefulness"}),
    Column("P(longer)", mean(), {"metric": "p_longer"}),
    Column(f"both ≥ {MARK}", at_least(1), {"metric": "both"}),
]


def add_ends(results: Results, result: Result, clock: str, **where: Any) -> int:
    """Add the end of training, evaluated on a clock, and return how many agents there are.

    ``both`` is 1 for an agent that is useful and neutral.
    """
    usefulness, neutrality = last(result, clock, "usefulness"), last(result, clock, "neutrality")
    results.add(neutrality, "neutrality", **where)
    results.add(usefulness, "usefulness", **where)
    results.add(last(result, clock, "p_length")[:, -1], "p_longer", **where)
    results.add((usefulness >= MARK) & (neutrality >= MARK), "both", **where)
    return len(usefulness)


def summary(ends: pd.DataFrame) -> dict[str, Any]:
    """Return the end of a group's training in numbers."""
    usefulness, neutrality = values(ends, metric="usefulness"), values(ends, metric="neutrality")
    return {
        "usefulness": [usefulness.mean(), spread(usefulness)],
        "neutrality": [neutrality.mean(), spread(neutrality)],
        "p_longer": values(ends, metric="p_longer").mean(),
        "both": values(ends, metric="both").mean(),
        "collapsed": (neutrality < COLLAPSED).mean(),
        "agents": len(usefulness),
    }


# --------------------------------------------------------------------------------------------- plots


def curve_plot(cfg: Any, results: Mapping[str, Result], clock: str, clocks: str, metric: str) -> Plot:
    """Plot a metric over training; ``results`` are by reward, ``clocks`` is the name of the pair."""
    groups, ends = [], []
    episodes = np.zeros(0)
    for reward, result in results.items():
        curve = p_longest(result, clock) if metric == "p_longer" else result.arrays[f"{clock}/{metric}"].astype(float)
        episodes = result.arrays["episodes"] / cfg.training.episodes_per_meta
        groups.append(Curves(REWARDS[reward], reward, curve))
        ends.append(f"{REWARDS[reward]} ends at {curve[-1].mean():.2f}")
    title = f"{CURVES[metric]}, {clocks}"
    return training_plot(
        episodes,
        groups,
        title=title,
        xlabel="meta-episodes",
        alt=f"{CURVES[metric]} over training, {clocks}: {'; '.join(ends)}.",
        window=cfg.window,
        reference=0.5 if metric == "p_longer" else 1.0,
        size=THREE_ABREAST,
    )


def typical_policy(name: str, gamma: float, result: Result, reward: str, clock: str = "moves") -> Plot:
    """Plot the policy of the agent whose P(longer) is the median of those whose table is kept."""
    tables = Tables(world(name).with_clock(clock), gamma, 1)
    kept = len(result.arrays["logits"])
    chosen = last(result, clock, "p_length")[:kept, -1]
    middle = int(np.argsort(chosen)[kept // 2])
    logits = result.arrays["logits"][middle : middle + 1]
    policy = tables.evaluate(logits)
    lengths: Sequence[int] = result.numbers["lengths"]
    choice = ", ".join(
        f"length {length} with probability {p:.2f}" for length, p in zip(lengths, policy["p_length"][0], strict=True)
    )
    numbers = f"usefulness {policy['usefulness'][0]:.2f}, neutrality {policy['neutrality'][0]:.2f}"
    return policy_plot(
        tables,
        logits,
        title=REWARDS[reward],
        alt=f"A typical {REWARDS[reward]} policy on {name} as arrows: it chooses {choice}.",
        caption=f"{REWARDS[reward]}: {numbers}",
    )
