"""The running example (Figures 3 and 4 of the paper), on three pairs of clocks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING

from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, agents_job
from drest_torch.limits import limited
from drest_torch.report.blocks import Table
from drest_torch.report.tables import MISSING as DASH
from drest_torch.report.tables import Column, mean_sd, select, table, values
from drest_torch.studies.clock_pairs import (
    CLOCKS,
    COLLAPSED,
    END_COLUMNS,
    FACTORS,
    MARK,
    MOST,
    REWARDS,
    add_ends,
    summary,
)
from drest_torch.studies.example import analysis
from drest_torch.studies.example.analysis import CLOSE, GIVEN_UP, REPORTED, REPORTED_P_LONGER
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "The running example (Figures 3 and 4)"
QUESTION = (
    "Do agents trained with the DReST reward on the paper's running example become useful and neutral, "
    "and where do the reported numbers come from?"
)

AS_REPORTED, MOVES, STEPS = CLOCKS.values()
OTHER_M, FREE_BUMPS = "m discounted once more", "bumps not discounted"
"""Changes to training on moves, besides those of `Config.cures` to training on steps."""


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/example.yaml`."""

    world: str = MISSING
    agents: int = limited(at_least=1)
    agents_in_paper: int = limited(at_least=1)
    window: int = limited(at_least=1)
    training: Training = field(default_factory=Training)
    cures: dict[str, dict[str, Any]] = MISSING
    cure_agents: int = limited(at_least=1)


def jobs(cfg: Config) -> list[Job]:
    """Return the runs of both rewards on both clocks, then those with a change to the training."""
    return [
        *main_jobs(cfg).values(),
        _other_m(cfg),
        *_free_bumps(cfg).values(),
        *cure_jobs(cfg).values(),
        _cured_default(cfg),
    ]


def main_jobs(cfg: Config) -> dict[tuple[str, str], Job]:
    """Return the runs without a change, by clock of training and reward."""
    return {(clock, reward): _job(cfg, clock, reward, cfg.agents) for clock in ("moves", "steps") for reward in REWARDS}


def _job(cfg: Config, clock: str, reward: str, agents: int, label: str = "", **changes: Any) -> Job:
    evaluated_on = ("moves", "steps") if clock == "moves" else ("steps",)
    return agents_job(
        cfg.training,
        label=f"{label or 'as-in-paper'}-{clock}-{reward}",
        world=cfg.world,
        clock=clock,
        reward=reward,
        agents=agents,
        evaluated_on=evaluated_on,
        **changes,
    )


def _other_m(cfg: Config) -> Job:
    """Return the run in which m(l) has one more factor of γ, as if the coin of tick t were worth γ^t, not γ^(t−1)."""
    gamma = cfg.training.gamma
    return _job(cfg, "moves", "drest", cfg.agents, "m-discounted-once-more", factors=(gamma, gamma))


def _free_bumps(cfg: Config) -> dict[str, Job]:
    """Return the runs in which bumps cost nothing at all, by reward."""
    return {
        reward: _job(cfg, "moves", reward, cfg.agents, "bumps-not-discounted", discount_bumps=False)
        for reward in REWARDS
    }


def cure_jobs(cfg: Config) -> dict[str, Job]:
    """Return the runs on steps with a change to the training, by the change's name."""
    names = list(cfg.cures)
    return {
        name: _job(
            cfg, "steps", "drest", cfg.agents if name == names[-1] else cfg.cure_agents, f"cure-{i}", **cfg.cures[name]
        )
        for i, name in enumerate(names)
    }


def _cured_default(cfg: Config) -> Job:
    return _job(cfg, "steps", "default", cfg.agents, "cured", **list(cfg.cures.values())[-1])


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return the ends of training, how they compare with the paper's, and what mends the clock of every step."""
    results = measure(cfg, finished)
    unchanged = select(results, change="")
    as_reported = select(unchanged, clocks=AS_REPORTED)
    compared = [
        row
        for reward in REWARDS
        if not (ends := select(as_reported, reward=reward)).empty
        for row in analysis.comparisons(ends, reward, cfg.agents_in_paper)
    ]
    runs = {key: result for key, job in main_jobs(cfg).items() if (result := finished.get(job)) is not None}
    clocks: dict[str, Any] = {}
    for (pair, reward), ends in unchanged.groupby([*FACTORS], sort=False):
        clocks.setdefault(pair, {})[reward] = summary(ends)
    findings = {
        "agents": cfg.agents,
        "clocks": clocks,
        "apart": compared,
        "reproduced": analysis.reproduced(compared),
        "spread": analysis.default_spread(compared, cfg.agents_in_paper),
        "default_longer": analysis.default_lengths(select(as_reported, reward="default")),
        "collapse": analysis.collapse(runs["steps", "drest"]) if ("steps", "drest") in runs else None,
        "cures": analysis.cures(cfg, results),
    }
    names = {
        "CLOSE": CLOSE,
        "COLLAPSED": COLLAPSED,
        "MARK": MARK,
        "MOST": MOST,
        "GIVEN_UP": GIVEN_UP,
        "REPORTED": REPORTED,
        "REPORTED_P_LONGER": REPORTED_P_LONGER,
        "drest": {pair: clocks.get(pair, {}).get("drest") for pair in CLOCKS.values()},
        "recommended": list(cfg.cures)[-1],
        "spread": findings["spread"],
    }
    tables = {"reported": _reported(cfg, select(results, clocks=AS_REPORTED)), **_end_tables(cfg, results)}
    return Analysis(results, findings, tables, _quotes(cfg, results), names, extra=runs)


def measure(cfg: Config, finished: Finished) -> pd.DataFrame:
    """Return the end of training of every agent, for each pair of clocks, reward and change to the training."""
    results = Results("example", *FACTORS, "change")
    recommended = list(cfg.cures)[-1]
    moves, steps = (AS_REPORTED, MOVES), (STEPS,)
    runs = [("", reward, moves if clock == "moves" else steps, job) for (clock, reward), job in main_jobs(cfg).items()]
    runs.append((OTHER_M, "drest", moves, _other_m(cfg)))
    runs += [(FREE_BUMPS, reward, moves, job) for reward, job in _free_bumps(cfg).items()]
    runs += [(name, "drest", steps, job) for name, job in cure_jobs(cfg).items()]
    runs.append((recommended, "default", steps, _cured_default(cfg)))
    for change, reward, pairs, job in runs:
        if (result := finished.get(job)) is not None:
            for pair in pairs:
                where: Any = {
                    "variant": job.name,
                    "level": cfg.world,
                    "clocks": pair,
                    "reward": reward,
                    "change": change,
                }
                agents = add_ends(results, result, pair.split(" / ")[1], **where)
                results.add(np.full(agents, result.numbers["episodes"] / agents), "mini_episodes", **where)
    return results.table()


# -------------------------------------------------------------------------------- tables and quotes


def _reported(cfg: Config, results: pd.DataFrame) -> Table:
    few = cfg.agents_in_paper
    header = ["agents", "measure", "paper", f"{few} agents", "apart", f"{cfg.agents} agents", "apart"]
    rows = []
    for (change, reward), ends in results.groupby(["change", "reward"], sort=False):
        compared = analysis.comparisons(ends, reward, few)
        for of_few, of_all in zip(compared[::2], compared[1::2], strict=True):
            measure = of_few["measure"]
            row = [f"{REWARDS[reward]}{', ' if change else ''}{change}", measure, _as_reported(reward, measure)]
            for number in (of_few, of_all):
                row += [f"{number['mean']:.4f} ± {number['sd']:.4f}", _apart(number["standard_errors"])]
            rows.append(row)
    return Table("The end of training: trained on moves, evaluated on every step", header, rows)


def _apart(errors: float) -> str:
    return DASH if math.isnan(errors) else f"{'✓' if errors <= CLOSE else '✗'} {errors:.1f}"


def _as_reported(reward: str, measure: str) -> str:
    value, sd = REPORTED[reward][measure]
    digits = 3 if round(value, 3) == value else 4
    return f"{value:.{digits}f} ± {sd:.{digits}f}"


def _end_tables(cfg: Config, results: pd.DataFrame) -> dict[str, Table]:
    played = Column("mini-episodes", lambda numbers: f"{numbers.mean():,.0f}", {"metric": "mini_episodes"})
    return {
        "clocks": table(
            select(results, change=""),
            FACTORS,
            END_COLUMNS,
            "The end of training on three pairs of clocks",
            corner="trained / evaluated on, agents",
            name=lambda key: f"{key[0]}, {REWARDS[key[1]]}",
        ),
        "cures": table(
            results[results["change"].isin(list(cfg.cures))],
            ["change", "reward"],
            [played, *END_COLUMNS],
            "Agents trained and evaluated on every step, with a change to the training",
            corner="change",
            name=lambda key: key[0] if key[1] == "drest" else f"{key[0]}, default reward",
        ),
    }


def _quotes(cfg: Config, results: pd.DataFrame) -> list[Quote]:
    few, quotes = cfg.agents_in_paper, []
    for reward, words in REWARDS.items():
        ends = select(results, change="", clocks=AS_REPORTED, reward=reward)
        reported = ", ".join(f"{measure[0].upper()} {_as_reported(reward, measure)}" for measure in REPORTED[reward])
        what = f"example, {words}, trained on moves, evaluated on timesteps, {few} agents"
        quotes += [Quote(what, reported, _brief(ends, few))] if len(ends) else []
    for what, pair, change in (
        ("example, DReST, trained and evaluated on moves", MOVES, ""),
        ("example, DReST, trained and evaluated on timesteps", STEPS, ""),
        ("the same with random play first", STEPS, list(cfg.cures)[-1]),
    ):
        ends = select(results, change=change, clocks=pair, reward="drest")
        quotes += [Quote(f"{what}, {cfg.agents} agents", "", _brief(ends, cfg.agents))] if len(ends) else []
    return quotes


def _brief(ends: pd.DataFrame, agents: int) -> str:
    first = {metric: values(ends, metric=metric)[:agents] for metric in ("neutrality", "usefulness", "both")}
    passed = int(first["both"].sum())
    marks = "" if passed == 0 and ends["clocks"].iloc[0] != MOVES else f"; both ≥ {MARK} in {passed}"
    return f"N {mean_sd()(first['neutrality'])}, U {mean_sd()(first['usefulness'])}{marks}"
