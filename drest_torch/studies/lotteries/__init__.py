"""Lotteries over trajectory-lengths (section 8.2, appendix C): which agents pay to shift probability, and a remedy.

`runs` trains and tests agents, `measured` makes rows of the results, `claims` tests claims on them, and `pages` makes
figures and tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from drest_torch.choices.variants import AS_LISTS, VARIANTS
from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.studies.choosers import LotteryAgents, jobs_of
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.lotteries.claims import CLAIMS, COINS_BY_CHANCE, NUMBERS, SURE
from drest_torch.studies.lotteries.measured import all_rows
from drest_torch.studies.lotteries.pages import FIGURES, TABLES
from drest_torch.studies.shared import check_names

__all__ = ["CLAIMS", "FIGURES", "NUMBERS", "QUICK", "TABLES", "Config", "Key", "jobs", "rows"]

MANY = tuple(f"{name}{reads}" for name in (SURE, COINS_BY_CHANCE) for reads in ("", AS_LISTS))
"""Variants with many agents, because seeds differ."""
GRIDWORLDS = "DReST and Neutrality+, gridworlds"
PARTS = ("worlds", "menus", "gridworlds")


@dataclass
class Config(StudyConfig):
    parts: list[str] = value(["worlds", "menus"])
    """The chosen parts: worlds, menus, and gridworlds, which takes more than an hour on two cores."""
    lam: float = limited(above=0, at_most=1, default=0.9)
    """λ of all rewards."""
    episodes: list[int] = value([16, 64])
    """E in the corridors and with the buttons."""
    tenths: list[int] = value([1, 3, 5, 7, 8])
    """Prices of the way to the likelier button in a corridor, in tenths of the coins."""
    chances: list[float] = value([0.5, 0.2])
    """Probabilities that a button works."""
    steps: int = limited(at_least=1, default=400)
    """Steps of Adam in the corridors and with the buttons."""
    variants: list[str] = value(list(VARIANTS))
    """The variants of training in menus (`drest_torch.choices.variants`)."""
    agents: int = limited(at_least=1, default=5)
    """Agents of each variant."""
    agents_of: dict[str, int] = value(dict.fromkeys(MANY, 20))
    """Agents of particular variants, in place of ``agents``."""
    updates: int = limited(at_least=1, default=1000)
    """Updates of each agent in menus."""
    batch: int = limited(at_least=3, default=128)
    """Menus of each agent in an update."""
    width: int = limited(at_least=1, default=32)
    """Units of a hidden layer of these agents."""
    lr: float = limited(above=0, default=0.005)
    """Their learning rate."""
    menu_episodes: int = limited(at_least=2, default=32)
    """E of the reward in menus."""
    suite_items: int = limited(at_least=3, default=1000)
    """Items of each suite; agents of gridworlds answer fewer."""
    gridworlds: LotteryAgents = value(
        LotteryAgents(
            seeds=5,
            arguments="algo=generalist policy=convolutional policy.head_width=128 policy.head_depth=2 "
            "levels.by_chance=true levels.outcomes=3 "
            "levels.symmetries=true reward.episodes_per_meta=44 algo.levels_at_once=24 env_steps=10000000 "
            "evaluations=1",
            levels={"name": "paper_like", "values": {"levels": {"train": 20000, "selection": 50, "test": 200}}},
            agents={
                GRIDWORLDS: {
                    "shown": "never",
                    "menus": ["sure", "lotteries", "shared"],
                    "arguments": "objective=supports algo.levels_at_once=48",
                }
            },
        )
    )
    """Agents of the part gridworlds, which are also trained on menus."""


QUICK = {
    "episodes": [64],
    "tenths": [1, 8],
    "chances": [0.5],
    "steps": 60,
    "agents": 2,
    "agents_of": dict.fromkeys(MANY, 2),
    "updates": 10,
    "batch": 32,
    "suite_items": 10,
    "gridworlds": {
        "seeds": 1,
        "levels": {"values": {"levels": {"train": 60, "selection": 5, "test": 10}}},
        "overrides": ["env_steps=40000", "policy.width=8", "policy.depth=2"],
    },
}


class Key(NamedTuple):
    part: str
    """worlds, menus or gridworlds"""
    name: Any
    """E, a variant, or the title of a kind of agents"""
    seed: int = 0


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs of gradient ascent in corridors and with buttons, of each variant, and in gridworlds."""
    check_names("study.variants with", cfg.variants, VARIANTS)
    check_names("study.parts with", cfg.parts, PARTS)
    runs: dict[Key, Job] = {}
    runner = "drest_torch.studies.lotteries.runs"
    common: dict[str, Any] = {"tenths": list(cfg.tenths), "chances": list(cfg.chances), "lam": cfg.lam}
    for episodes in cfg.episodes:
        spec = common | {"episodes_per_meta": episodes, "steps": cfg.steps}
        runs[Key("worlds", episodes)] = Job(f"corridors-E={episodes}", f"{runner}:ascend_worlds", spec)
    common = {"updates": cfg.updates, "batch": cfg.batch, "width": cfg.width, "lr": cfg.lr, "lam": cfg.lam}
    common |= {"episodes": cfg.menu_episodes, "seed": 0, "items": cfg.suite_items}
    for variant in cfg.variants:
        spec = common | {"variant": variant, "agents": int(cfg.agents_of.get(variant, cfg.agents))}
        runs[Key("menus", variant)] = Job(variant, f"{runner}:train_variant", spec)
    for title, jobs_by_seed in jobs_of(cfg.gridworlds, "gridworlds").items():
        runs |= {Key("gridworlds", title, seed): job for seed, job in enumerate(jobs_by_seed)}
    return {key: job for key, job in runs.items() if key.part in cfg.parts}


def rows(cfg: Config, done: Mapping[Key, Result]) -> pd.DataFrame:
    """Return the rows of the page (`drest_torch.studies.lotteries.measured`)."""
    return all_rows(cfg, done)
