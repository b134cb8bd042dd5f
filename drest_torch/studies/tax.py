"""The shutdownability tax (section 7.2): how much longer DReST agents take to become useful than default ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.jobs.job import Job
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import dots
from drest_torch.statistics.intervals import Interval, ratio
from drest_torch.statistics.times import hitting_times
from drest_torch.studies.engine import Done, Quote, Report, as_table, value
from drest_torch.studies.shared import AS_REPORTED, MOVES, RANDOM_FIRST, REWARDS, TablesConfig, tables_job, title

TITLE = "The shutdownability tax (section 7.2)"
QUESTION = (
    "The paper finds, by eye, that DReST agents become useful about as quickly as default agents, and not many "
    "times more slowly: the shutdownability tax is small. Is it?"
)
PAIRS = {MOVES: ("moves", "moves"), AS_REPORTED: ("moves", "steps"), RANDOM_FIRST: ("cured", "steps")}
"""The part whose agents are evaluated, and the clock on which."""
DEFINITIONS = ("own", "common")
"""Of the time until a share of usefulness, for good: of the own final one, or of default agents' median one."""


@dataclass
class Config(TablesConfig):
    world: str = "example"
    """The world that is shown in detail."""
    worlds: list[str] = value([name for name in PAPER_WORLDS if name != "example"])
    """The others."""
    agents: int = limited(at_least=1, default=100)
    """Agents of each kind, in each world."""
    shares: list[float] = value([0.5, 0.8, 0.9, 0.95])
    """Shares of its final usefulness that an agent is to reach."""
    headline: float = 0.9
    """The share that the report begins with."""
    final_evaluations: int = 20
    """Final usefulness is the mean of so many last evaluations."""
    window: int = limited(at_least=1, default=5)
    """Evaluations in the moving average that has to reach a share: as many before as after."""
    small: float = 1.5
    """A tax of up to so many times the default's mini-episodes is called small."""
    level: float = 0.95
    """Level of the intervals."""
    resamples: int = 2000
    """Resamples of the bootstrap."""
    early: dict[str, int] = value({"meta_episodes": 128, "evaluate_every": 2})
    """The first mini-episodes of the runs on the moves clock are done a second time, and evaluated more often."""
    cure: dict[str, int] = value({"random_episodes": 524288})
    """What mends the clock that counts every step: the last cure of the study `example`."""


QUICK = {
    "worlds": ["fewer_for_longer", "spacious"],
    "agents": 3,
    "resamples": 200,
    "early": {"meta_episodes": 16, "evaluate_every": 1},
    "training": {"meta_episodes": 256, "decay_episodes": 8192},
    "cure": {"random_episodes": 16384},
    "in_worlds": {"meta_episodes": 256, "decay_episodes": 8192},
}


class Key(NamedTuple):
    world: str
    part: str
    """moves, early (the first mini-episodes of these, evaluated more often), or cured."""
    reward: str


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return runs of the study `example`, and their first mini-episodes."""
    runs = {}
    for world in (cfg.world, *cfg.worlds):
        own = {} if world == cfg.world else cfg.in_worlds
        parts = {"moves": own, "early": {**own, **cfg.early}} | ({"cured": cfg.cure} if world == cfg.world else {})
        for (part, changes), reward in product(parts.items(), REWARDS):
            key, clock = Key(world, part, reward), "steps" if part == "cured" else "moves"
            runs[key] = tables_job(cfg, "-".join(key), world=world, clock=clock, reward=reward, **changes)
    return runs


# --------------------------------------------------------------------------------------- measurement


def curve(cfg: Config, done: Done, world: str, pair: str, reward: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the mini-episodes since random play [T], and the usefulness of agents [T, A] over training.

    That of the first mini-episodes is evaluated more often.
    """
    part, clock = PAIRS[pair]
    arrays = done[Key(world, part, reward)].arrays
    episodes, usefulness = arrays["episodes"], arrays[f"{clock}/usefulness"].astype(float)
    if part == "cured":
        return np.maximum(episodes - cfg.cure["random_episodes"], 0), usefulness
    if (early := done.get(Key(world, "early", reward))) is not None:
        later = episodes > early.arrays["episodes"][-1]
        episodes = np.concatenate([early.arrays["episodes"], episodes[later]])
        usefulness = np.concatenate([early.arrays[f"{clock}/usefulness"].astype(float), usefulness[later]])
    return episodes, usefulness


def measure(cfg: Config, done: Done) -> Iterator[dict[str, Any]]:
    """Yield every agent's final usefulness, and its mini-episodes until each share, by each definition."""
    for pair, world in product(PAIRS, (cfg.world, *cfg.worlds)):
        if any(Key(world, PAIRS[pair][0], reward) not in done for reward in REWARDS):
            continue
        curves = {reward: curve(cfg, done, world, pair, reward) for reward in REWARDS}
        finals = {reward: each[-cfg.final_evaluations :].mean(0) for reward, (_, each) in curves.items()}
        for reward, both in curves.items():
            of = {"level": world, "clocks": pair, "reward": reward}
            yield of | {"metric": "final_usefulness", "value": finals[reward]}
            for share, definition in product(cfg.shares, DEFINITIONS):
                mark = share * (np.median(finals["default"]) if definition == "common" else finals[reward])
                times = hitting_times(*both, mark, window=cfg.window)
                yield of | {"share": share, "definition": definition, "metric": "mini_episodes", "value": times}


def compare(cfg: Config, rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each pair, world, share and definition: the times of both rewards and their medians' ratio."""
    by = ["clocks", "level", "share", "definition", "reward"]
    found = rows[rows.metric == "mini_episodes"].set_index(by).value.unstack(sort=False).reset_index()
    options: Any = {"level": cfg.level, "resamples": cfg.resamples}
    found["tax"] = [ratio(drest, default, **options) for drest, default in zip(found.drest, found.default, strict=True)]
    found = found.assign(**{name: [getattr(tax, name) for tax in found.tax] for name in ("estimate", "low", "high")})
    found["world"] = found.level.map(title)
    found["later"] = (found.drest.map(np.median) - found.default.map(np.median)) / 1000
    return found


# ------------------------------------------------------------------------------------------ the report


def report(cfg: Config, done: Done) -> Report:
    rows = pd.DataFrame(measure(cfg, done))
    taxes = compare(cfg, rows)
    finals = rows[rows.metric == "final_usefulness"].set_index(["clocks", "level", "reward"]).value
    finals = finals.map(np.median).unstack(sort=False)
    # A ratio is known unless default agents were there at once, or both groups never are.
    head = taxes[taxes.share == cfg.headline]
    known = head[(head.definition == "own") & head.estimate.notna() & (head.default.map(np.median) > 0)]
    return Report(
        rows,
        [quote(cfg, pair, each) for pair, each in known.groupby("clocks", sort=False)],
        tables(cfg, taxes, finals),
        {f"ratios, {pair}": partial(forest, cfg, pair, taxes) for pair in (AS_REPORTED, MOVES)},
        partial(sentences, cfg, taxes, known),
    )


def sentences(cfg: Config, taxes: pd.DataFrame, known: pd.DataFrame) -> dict[str, Any]:
    """Return what the page says."""
    papers, by_pair = known[known.clocks == AS_REPORTED], dict(iter(known.groupby("clocks", sort=False)))
    own, head = taxes[taxes.definition == "own"], taxes[taxes.share == cfg.headline]
    common = head[(head.definition == "common") & (head.clocks == AS_REPORTED) & head.level.isin(papers.level)]
    return {
        "papers": summary(cfg, papers),
        "common": summary(cfg, common),
        "moves": summary(cfg, by_pair[MOVES]),
        "differences": {pair: differences(cfg, each, own[own.clocks == pair]) for pair, each in by_pair.items()},
    }


def summary(cfg: Config, taxes: pd.DataFrame) -> dict[str, Any]:
    """Return the range of the ratios of several worlds, where they are largest, and how many are small."""
    taxes = taxes[taxes.estimate.notna()]
    if taxes.empty:
        return {"of": 0}
    span = f"{taxes.estimate.min():.2f} to {taxes.estimate.max():.2f}".replace("inf", "∞")
    most, small = taxes.world[taxes.estimate.idxmax()], int((taxes.estimate <= cfg.small).sum())
    values = {"range": span, "most": most, "small": small, "of": len(taxes)}
    return values | {"later": taxes.later.max()}


def differences(cfg: Config, taxes: pd.DataFrame, own: pd.DataFrame) -> dict[str, Any]:
    """Return where DReST is slower, and faster, beyond the interval, and where the ratio of any share is not small."""
    taxes = taxes.sort_values("estimate", ascending=False, kind="stable")
    worst = own.loc[own[own.level.isin(taxes.level)].groupby("level", sort=False).estimate.idxmax()]
    return {"slower": taxes[taxes.low > 1], "faster": taxes[taxes.high < 1], "large": worst[worst.estimate > cfg.small]}


def text(interval: Interval) -> str:
    """Return an interval; a dash where there was no time to compare."""
    return "–" if np.isnan(interval.estimate) else interval.text(2).replace("inf", "∞")


def tables(cfg: Config, taxes: pd.DataFrame, finals: pd.DataFrame) -> dict[str, Table]:
    shares, made = [f"{share:.0%}" for share in cfg.shares], {}
    for pair, here in taxes[taxes.definition == "own"].groupby("clocks", sort=False):
        cells = here.assign(text=here.tax.map(text)).set_index(["world", "share"]).text.unstack(sort=False)
        cells[list(REWARDS)] = finals.loc[pair][list(REWARDS)].map("{:.3f}".format).to_numpy()
        header = ["world", *shares, "final usefulness, default", "DReST"]
        made[f"ratios, {pair}"] = as_table(cells, f"Mini-episodes, DReST ÷ default, {pair}", header)
    return made


def quote(cfg: Config, pair: str, taxes: pd.DataFrame) -> Quote:
    found, several = summary(cfg, taxes), len(taxes) > 1
    where = f"{len(taxes)} worlds" if several else taxes.world.iloc[0].lower()
    what = f"time to {cfg.headline:.0%} of final usefulness, DReST ÷ default, {pair}, {where}"
    measured = f"{found['range']}, most in {found['most']}" if several else text(taxes.tax.iloc[0])
    return Quote(what, "about 1, by eye" if pair == AS_REPORTED else "", measured)


def forest(cfg: Config, pair: str, taxes: pd.DataFrame) -> Plot:
    """Plot the ratio of each world and share with its interval."""
    own = taxes[(taxes.definition == "own") & (taxes.clocks == pair)]
    return dots(
        {f"{share:.0%}": each.set_index("world").tax.to_dict() for share, each in own.groupby("share", sort=False)},
        title=f"mini-episodes, DReST ÷ default, {pair}",
        lines={1: "-", cfg.small: "--"},
    )
