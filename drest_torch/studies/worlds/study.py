"""The paper's eight other worlds (Figures 9 to 16), on three pairs of clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING

from drest_torch.envs.levels import world
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, agents_job
from drest_torch.limits import limited
from drest_torch.report.blocks import Table
from drest_torch.report.tables import Column, at_least, select, table, values
from drest_torch.studies.clock_pairs import (
    CLOCKS,
    COLLAPSED,
    END_COLUMNS,
    FACTORS,
    MARK,
    MOST,
    RANDOM_FIRST,
    REWARDS,
    add_ends,
    summary,
)
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "The eight other worlds (Figures 9 to 16)"
QUESTION = "Are the reported results those of one gridworld, or do they hold in eight others as well?"

AS_REPORTED, MOVES, STEPS = "moves / steps", "moves / moves", "steps / steps"
PAIRS = {**{name: (trained, evaluated, False) for (trained, evaluated), name in CLOCKS.items()}}
PAIRS[RANDOM_FIRST] = ("steps", "steps", True)
"""Name: (clock of training, clock of evaluation, whether random play comes first)."""
NO_PREFERENCE = 0.1
"""Default agents whose mean neutrality is at most this prefer one length."""


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/worlds.yaml`."""

    worlds: list[str] = MISSING
    agents: int = limited(at_least=1)
    agents_in_paper: int = limited(at_least=1)
    window: int = limited(at_least=1)
    training: Training = field(default_factory=Training)
    cure: dict[str, Any] = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return a run for each world, clock and reward, and those that play at random first."""
    return [
        job(cfg, name, clock, reward, cured)
        for name in cfg.worlds
        for clock, cured in (("moves", False), ("steps", False), ("steps", True))
        for reward in REWARDS
    ]


def job(cfg: Config, name: str, clock: str, reward: str, cured: bool) -> Job:
    """Return the run of one world, clock of training and reward: all of its agents."""
    return agents_job(
        cfg.training,
        label=f"{name}-{clock}-{reward}{'-cured' if cured else ''}",
        world=name,
        clock=clock,
        reward=reward,
        agents=cfg.agents,
        evaluated_on=("moves", "steps") if clock == "moves" else ("steps",),
        **(cfg.cure if cured else {}),
    )


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return the end of training in each world, and in which worlds agents end useful and neutral."""
    results = measure(cfg, finished)
    pairs = {pair: verdicts(select(results, clocks=pair), cfg.agents_in_paper) for pair in PAIRS}
    findings = {"worlds": {name: _numbers(cfg, select(results, level=name)) for name in cfg.worlds}, "pairs": pairs}
    as_reported = {
        name: {
            reward: result
            for reward in REWARDS
            if (result := finished.get(job(cfg, name, "moves", reward, cured=False))) is not None
        }
        for name in cfg.worlds
    }
    names = {
        "MARK": MARK,
        "MOST": MOST,
        "COLLAPSED": COLLAPSED,
        "NO_PREFERENCE": NO_PREFERENCE,
        "RANDOM_FIRST": RANDOM_FIRST,
        "studies": {name: world(name).study for name in cfg.worlds},
        "clock": compare_clocks(results),
        "mended": compare_cure(pairs),
    }
    quotes = [_quote(cfg, select(results, clocks=pair, reward="drest"), pair) for pair in PAIRS]
    return Analysis(results, findings, _tables(cfg, results), quotes, names, extra=as_reported)


def measure(cfg: Config, finished: Finished) -> pd.DataFrame:
    """Return the end of training of every agent, for each world, pair of clocks and reward."""
    results = Results("worlds", *FACTORS)
    for name in cfg.worlds:
        for pair, (trained, evaluated, cured) in PAIRS.items():
            for reward in REWARDS:
                run = job(cfg, name, trained, reward, cured)
                if (result := finished.get(run)) is not None:
                    add_ends(results, result, evaluated, variant=run.name, level=name, clocks=pair, reward=reward)
    return results.table()


def verdicts(results: pd.DataFrame, few: int) -> dict[str, Any]:
    """Return in which worlds the first agents are useful and neutral, collapse, and prefer no length."""
    drest, default = (
        dict(iter(select(results, reward=reward).groupby("level", sort=False))) for reward in ("drest", "default")
    )
    good = [name for name, ends in drest.items() if values(ends, metric="both")[:few].mean() >= MOST]
    neutrality = {name: values(ends, metric="neutrality") for name, ends in drest.items()}
    partial = [name for name, ends in default.items() if values(ends, metric="neutrality").mean() <= NO_PREFERENCE]
    return {
        "good": good,
        "not_good": [name for name in drest if name not in good],
        "collapsed": [name for name, final in neutrality.items() if (final < COLLAPSED).mean() > 0.5],
        "default_prefers": partial,
        "default_indifferent": [name for name in default if name not in partial],
    }


def compare_clocks(results: pd.DataFrame) -> dict[str, list[str]]:
    """Return where DReST agents trained on moves are less useful when evaluated on steps, and where they are not."""
    useful = select(results, reward="drest", metric="usefulness")
    on = [dict(iter(select(useful, clocks=pair).groupby("level", sort=False))) for pair in (AS_REPORTED, MOVES)]
    lower = {name: values(on[0][name]).mean() < values(on[1][name]).mean() for name in on[0] if name in on[1]}
    return {"lower": [name for name in lower if lower[name]], "not_lower": [name for name in lower if not lower[name]]}


def compare_cure(pairs: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Return which worlds random play is enough for, and which not, of those that are not good on steps without it."""
    bad, cured = pairs[STEPS]["not_good"], pairs[RANDOM_FIRST]
    return {
        "mended": [name for name in bad if name in cured["good"]],
        "not_mended": [name for name in bad if name in cured["not_good"]],
    }


def _numbers(cfg: Config, results: pd.DataFrame) -> dict[str, Any]:
    numbers: dict[str, Any] = {pair: {} for pair in PAIRS}
    for (pair, reward), ends in results.groupby([*FACTORS], sort=False):
        first = values(ends, metric="both")[: cfg.agents_in_paper]
        numbers[pair][reward] = summary(ends) | {"both_of_first": int(first.sum())}
    return numbers


# -------------------------------------------------------------------------------- tables and quotes


def _tables(cfg: Config, results: pd.DataFrame) -> dict[str, Table]:
    few = cfg.agents_in_paper

    def first(passed: np.ndarray) -> str:
        return at_least(1)(passed[:few])

    columns = {"drest": [*END_COLUMNS, Column(f"of the first {few}", first, {"metric": "both"})]}
    columns["default"] = END_COLUMNS[:3]
    return {
        reward: table(
            select(results, reward=reward),
            ["level", "clocks"],
            columns[reward],
            f"{words[0].upper()}{words[1:]} agents at the end of training, means of {cfg.agents}",
            corner="world and clocks",
            name=_name,
        )
        for reward, words in REWARDS.items()
    }


def _name(key: Sequence[str]) -> str:
    return f"{world(key[0]).study['title']}, {key[1]}"


def _quote(cfg: Config, results: pd.DataFrame, pair: str) -> Quote:
    lowest = {
        metric: min((values(group).mean() for _, group in rows.groupby("level", sort=False)), default=float("nan"))
        for metric in ("neutrality", "usefulness")
        for rows in [select(results, metric=metric)]
    }
    worlds = results["level"].nunique()
    measured = f"lowest mean of a world N {lowest['neutrality']:.3f}, U {lowest['usefulness']:.3f}"
    if pair != AS_REPORTED:
        passed = int(values(results, metric="both").sum())
        measured += f"; both ≥ {MARK} in {passed} of {cfg.agents * worlds} agents"
    reported = "near-maximally neutral, about as useful as default agents" if pair == AS_REPORTED else ""
    return Quote(f"{worlds} other worlds, DReST, {pair}", reported, measured)
