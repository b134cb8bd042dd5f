"""The shutdownability tax (section 7.2): how much longer DReST agents take to become useful than default ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, agents_job
from drest_torch.limits import limited
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.studies.clock_pairs import FACTORS, RANDOM_FIRST, REWARDS
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig
from drest_torch.studies.tax import analysis
from drest_torch.studies.tax.analysis import MOVES, PAPERS, Case, Tax, interval_text, known, on

TITLE = "The shutdownability tax (section 7.2)"
QUESTION = (
    "The paper finds, by eye, that DReST agents become useful about as quickly as default agents, and not many "
    "times more slowly: the shutdownability tax is small. Is it?"
)
DEFINITIONS = {
    "own": {},
    "first": {"for_good": False},
    "common": {"common": True},
}
"""Of the time until a share: of the own final usefulness, for good or for the first time, or of the default's."""


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/tax.yaml`."""

    world: str = MISSING
    worlds: list[str] = MISSING
    agents: int = limited(at_least=1)
    shares: list[float] = MISSING
    headline: float = MISSING
    final_evaluations: int = MISSING
    window: int = limited(at_least=1)
    small: float = MISSING
    early: dict[str, int] = MISSING
    level: float = MISSING
    resamples: int = MISSING
    training: Training = field(default_factory=Training)
    cure: dict[str, Any] = MISSING
    in_worlds: dict[str, Any] = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return the runs of the studies `example` and `worlds`, and their first mini-episodes, evaluated more often."""
    if cfg.headline not in cfg.shares:
        shares = ", ".join(f"{share:g}" for share in cfg.shares)
        raise ConfigError(f"study.headline={cfg.headline:g}; expected one of study.shares, {shares}")
    runs = [job for case in cases(cfg) for job in (*case.jobs.values(), *case.early.values())]
    return list({job.digest(): job for job in runs}.values())


def cases(cfg: Config) -> list[Case]:
    """Return the cases: each world on two pairs of clocks, and the running example on a third."""
    chosen: list[Case] = []
    for name in (cfg.world, *cfg.worlds):
        changes = {} if name == cfg.world else cfg.in_worlds
        runs = {reward: _job(cfg, name, "moves", reward, **changes) for reward in REWARDS}
        early = {reward: _job(cfg, name, "moves", reward, "-early", **{**changes, **cfg.early}) for reward in REWARDS}
        chosen += [Case(name, "moves", clock, runs, early) for clock in ("moves", "steps")]
        if name == cfg.world:
            runs = {reward: _job(cfg, name, "steps", reward, "-cured", **cfg.cure) for reward in REWARDS}
            chosen.append(Case(name, "steps", "steps", runs, {}, cfg.cure["random_episodes"]))
    return chosen


def _job(cfg: Config, name: str, clock: str, reward: str, suffix: str = "", **changes: Any) -> Job:
    return agents_job(
        cfg.training,
        label=f"{name}-{clock}-{reward}{suffix}",
        world=name,
        clock=clock,
        reward=reward,
        agents=cfg.agents,
        evaluated_on=("moves", "steps") if clock == "moves" else ("steps",),
        **changes,
    )


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return the times until shares of the final usefulness, and their ratios."""
    taxes = [tax for case in cases(cfg) if (tax := compare(cfg, case, finished)) is not None]
    findings: dict[str, Any] = {"agents": cfg.agents, "headline": cfg.headline}
    for tax in taxes:
        findings.setdefault("worlds", {}).setdefault(tax.case.world, {})[tax.case.clocks] = tax.numbers()
    clocks = list(dict.fromkeys(tax.case.clocks for tax in taxes))
    with_ratio = {pair: known(on(taxes, pair), cfg.headline) for pair in clocks}
    papers, moves = with_ratio.get(PAPERS, []), with_ratio.get(MOVES, [])
    final = [[np.median(tax.agents(reward).final) for reward in ("drest", "default")] for tax in on(taxes, PAPERS)]
    names = {
        "clocks": clocks,
        "RANDOM_FIRST": RANDOM_FIRST,
        "papers": analysis.summarise(cfg, papers),
        "common": analysis.summarise(cfg, papers, common=True),
        "moves": analysis.summarise(cfg, moves),
        "differences": {pair: analysis.differences(cfg, each) for pair, each in with_ratio.items() if each},
        "preference": analysis.by_preference(cfg, papers),
        "less_useful": {"worlds": sum(bool(drest < default) for drest, default in final), "of": len(final)},
    }
    return Analysis(measure(cfg, taxes), findings, _tables(cfg, taxes), _quotes(cfg, with_ratio), names, extra=taxes)


def compare(cfg: Config, case: Case, finished: Finished) -> Tax | None:
    """Return the times of a case, or None where a run of either reward is missing."""
    agents = {}
    for reward, job in case.jobs.items():
        if (result := finished.get(job)) is None:
            return None
        early = case.early.get(reward)
        agents[reward] = analysis.join(cfg, case, result, None if early is None else finished.get(early))
    return Tax(case, agents["default"], agents["drest"], cfg)


def measure(cfg: Config, taxes: Sequence[Tax]) -> pd.DataFrame:
    """Return every agent's final usefulness, and its mini-episodes until each share, by each definition."""
    results = Results("tax", *FACTORS, "share", "definition")
    for tax in taxes:
        for reward in REWARDS:
            case = tax.case
            where: dict[str, Any] = {"level": case.world, "clocks": case.clocks, "reward": reward}
            where["variant"] = case.jobs[reward].name
            results.add(tax.agents(reward).final, "final_usefulness", **where)
            for share in cfg.shares:
                for definition, options in DEFINITIONS.items():
                    times = tax.times(reward, share, **options)
                    results.add(times, "mini_episodes", **where, share=share, definition=definition)
    return results.table()


# -------------------------------------------------------------------------------- tables and quotes


def _tables(cfg: Config, taxes: Sequence[Tax]) -> dict[str, Table]:
    shares = [f"{share:.0%}" for share in cfg.shares]
    tables = {}
    for clocks in dict.fromkeys(tax.case.clocks for tax in taxes):
        here = on(taxes, clocks)
        ratios = [
            [
                literal(tax.case.title),
                *map(interval_text, tax.ratios.values()),
                *(f"{np.median(tax.agents(reward).final):.3f}" for reward in REWARDS),
            ]
            for tax in here
        ]
        header = ["world", *shares, "final usefulness, default", "DReST"]
        tables[f"ratios, {clocks}"] = Table(f"Mini-episodes, DReST ÷ default, {clocks}", header, ratios)
        times = [
            [f"{literal(tax.case.title)}, {words}", *(interval_text(tax.time(reward, s), 1) for s in cfg.shares)]
            for tax in here
            for reward, words in REWARDS.items()
        ]
        caption = f"Thousands of mini-episodes of the median agent, {clocks}"
        tables[f"times, {clocks}"] = Table(caption, ["world, reward", *shares], times)
    tables["definitions"] = _definitions(cfg, on(taxes, PAPERS))
    return tables


def _definitions(cfg: Config, taxes: Sequence[Tax]) -> Table:
    share = cfg.headline
    header = ["world", "as above", "for the first time", "of the default's", "never, DReST"]
    rows = []
    for tax in taxes:
        never = np.isinf(tax.times("drest", share, common=True)).sum()
        intervals = (tax.ratios[share], tax.ratio(share, for_good=False), tax.common)
        rows.append([literal(tax.case.title), *map(interval_text, intervals), f"{never} of {cfg.agents}"])
    return Table(f"DReST ÷ default at {share:.0%}, {PAPERS}, by three definitions", header, rows)


def _quotes(cfg: Config, with_ratio: dict[str, list[Tax]]) -> list[Quote]:
    quotes = []
    for clocks, taxes in with_ratio.items():
        if (numbers := analysis.summarise(cfg, taxes)) is not None:
            several = len(taxes) > 1
            where = f"{len(taxes)} worlds" if several else taxes[0].case.title.lower()
            what = f"time to {cfg.headline:.0%} of final usefulness, DReST ÷ default, {clocks}, {where}"
            one = interval_text(taxes[0].ratios[cfg.headline])
            measured = f"{numbers['range']}, most in {numbers['most']}" if several else one
            quotes.append(Quote(what, "about 1, by eye" if clocks == PAPERS else "", measured))
    return quotes
