"""The running example and the paper's eight other worlds on three pairs of clocks (Figures 3, 4 and 9 to 16).

`world_rows` reads the runs, `claims` holds the paper's numbers, and `pages` makes figures and tables. `tax` measures
the shutdownability tax on the same runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd
from omegaconf import MISSING

from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.studies.engine import value
from drest_torch.studies.example import pages, tax
from drest_torch.studies.example.claims import CLAIMS as CLAIMS_OF_ENDS
from drest_torch.studies.example.claims import NUMBERS as NUMBERS_OF_ENDS
from drest_torch.studies.example.world_rows import EARLY, EXAMPLE, FREE_BUMPS, OTHER_M, Key, all_rows
from drest_torch.studies.shared import REWARDS, TablesConfig, tables_job


@dataclass
class Config(TablesConfig):
    worlds: list[str] = value([name for name in PAPER_WORLDS if name != EXAMPLE])
    """The worlds besides the running example."""
    agents: int = limited(at_least=1, default=100)
    """Agents of each kind."""
    agents_in_paper: int = limited(at_least=1, default=10)
    """The number of agents, from the first on, that are compared with the paper's."""
    cures: dict[str, dict[str, Any]] = MISSING
    """Changes to training that may prevent the collapse on the clock steps; the last one is tried in all worlds."""
    cure_agents: int = limited(at_least=1, default=20)
    """Agents of each change except the last."""
    early: dict[str, int] = value({"meta_episodes": 128, "evaluate_every": 2})
    """Training of the runs that repeat the first mini-episodes on the clock moves, with more evaluations for the
    tax."""
    resamples: int = 2000
    """Resamples of the tax's bootstrap."""


QUICK = {
    "worlds": ["fewer_for_longer", "around_the_corner", "hidden_treasure"],
    "agents": 3,
    "agents_in_paper": 2,
    "cure_agents": 2,
    "training": {"meta_episodes": 256, "decay_episodes": 8192},
    "in_worlds": {"meta_episodes": 256, "decay_episodes": 8192},
    "cures": {
        "ε from 1, all 4 × as long": {"decay_episodes": 32768, "meta_episodes": 1024},
        "ε from 1, all 32 × as long": {"decay_episodes": 65536, "meta_episodes": 2048},
        tax.RANDOM_PLAY: {"random_episodes": 16384},
    },
    "early": {"meta_episodes": 16, "evaluate_every": 1},
    "resamples": 200,
}


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs of both rewards on both clocks and with random play first, then runs with another change."""
    *other_cures, cure = cfg.cures
    changes: dict[Key, dict[str, Any]] = {}
    for name, reward in product((EXAMPLE, *cfg.worlds), REWARDS):
        changes |= {Key(name, clock, reward): {} for clock in ("moves", "steps")}
        changes[Key(name, "steps", reward, cure)] = cfg.cures[cure]
        changes[Key(name, "moves", reward, EARLY)] = dict(cfg.early)
    for reward in REWARDS:
        changes[Key(EXAMPLE, "moves", reward, FREE_BUMPS)] = {"discount_bumps": False}
    changes[Key(EXAMPLE, "moves", "drest", OTHER_M)] = {"factors": (cfg.training.gamma,) * 2}
    for change in other_cures:
        changes[Key(EXAMPLE, "steps", "drest", change)] = {"agents": cfg.cure_agents, **cfg.cures[change]}
    runs = {}
    for key, changed in changes.items():
        in_world = {} if key.world == EXAMPLE else cfg.in_worlds
        place = {"world": key.world, "clock": key.clock, "reward": key.reward}
        runs[key] = tables_job(cfg, "-".join(filter(None, key)), **place, **{**in_world, **changed})
    return runs


def rows(cfg: Config, done: Mapping[Key, Result]) -> pd.DataFrame:
    """Return five kinds of rows, by the column ``part``.

    - end: agents at the end of training, by world, reward, pair of clocks and change; the paper's number of agents (the
      sample ``first``) and all agents,
    - curve: means and percentiles of agents over training,
    - policy: the table of a typical agent of each reward in the running example,
    - undiscounted: the usefulness of agents in Hidden Treasure, with and without γ,
    - tax: how much longer DReST agents take to become useful (`drest_torch.studies.example.tax`).
    """
    ends = [*all_rows(jobs(cfg), done, cfg.agents_in_paper)]
    random_episodes = cfg.cures[tax.RANDOM_PLAY]["random_episodes"]
    taxes = tax.tax_rows(done, [EXAMPLE, *cfg.worlds], random_episodes, cfg.resamples)
    return pd.DataFrame([*ends, *taxes])


CLAIMS = CLAIMS_OF_ENDS | tax.CLAIMS
NUMBERS = NUMBERS_OF_ENDS | tax.NUMBERS
FIGURES = pages.FIGURES | tax.FIGURES
TABLES = pages.TABLES | tax.TABLES
