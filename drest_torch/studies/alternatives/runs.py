"""The runs of the study of alternatives: each objective at several strengths, and some with a private bit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from omegaconf import OmegaConf

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import merge_arguments
from drest_torch.limits import limited
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.shared import check_names, command_jobs

DREST = "DReST"
"""The reference of all comparisons."""
KEYS = ("family", "like", "arguments", "strength", "symbol", "values")
"""The keys of an objective in `alternatives.yaml`."""


@dataclass
class Config(StudyConfig):
    seeds: int = limited(at_least=1, default=5)
    """Agents of each objective at the compared strength; their seeds are 0, 1, 2, …"""
    seeds_at_other_strengths: int = limited(at_least=1, default=1)
    """Agents at each other strength: they show the course of a curve, and are not compared."""
    arguments: str = ""
    """Arguments of `drest train` for every agent: the same network, levels and number of updates."""
    objectives: dict[str, dict[str, Any]] = value({})
    """Values of each objective, by title: see `alternatives.yaml`."""
    chosen: list[str] | None = None
    """Titles of the objectives that agents are trained with; null: all."""
    with_bit: list[str] = value([DREST, "U + w N", "coins, N ≥ h"])
    """Objectives that agents with a private bit are trained with as well."""
    overrides: list[str] = value([])
    """Arguments that override those of all agents: ["env_steps=1000000"], for instance."""


QUICK = {
    "seeds": 1,
    "chosen": [DREST, "U + w N", "coins, N ≥ h", "divergence from uniform", "default ÷ m"],
    "with_bit": ["U + w N"],
    "objectives": {
        DREST: {"values": [64, 4]},
        "U + w N": {"values": [1.15, 0.1]},
        "coins, N ≥ h": {"values": [0.95, 0.8]},
    },
    "overrides": [
        *("levels.train=40", "levels.test=10", "levels.selection=5"),
        *("env_steps=3000", "policy.width=8", "policy.depth=2"),
    ],
}


class Key(NamedTuple):
    objective: str
    strength: float | None
    """The strength of the objective; None: it has no strength."""
    bit: bool
    """True if the policy has a private bit."""
    seed: int


def objectives_of(cfg: Config) -> dict[str, dict[str, Any]]:
    """Return the chosen objectives by title, with the values that they inherit (``like``)."""
    configured = cast("dict[str, dict[str, Any]]", OmegaConf.to_container(OmegaConf.create(cfg.objectives)))
    check_names("study.chosen with", cfg.chosen or (), configured)
    check_names("study.with_bit with", cfg.with_bit, configured)
    objectives = {}
    for title, objective in configured.items():
        check_names(f"study.objectives: '{title}' has the key", objective, KEYS)
        if cfg.chosen is None or title in cfg.chosen:
            objectives[title] = _complete(title, objective, configured)
    return objectives


def _complete(title: str, objective: dict[str, Any], configured: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return an objective with the values that it inherits from the objective named by ``like``."""
    if "like" in objective:
        check_names(f"study.objectives: '{title}' is like", [objective["like"]], configured)
        parent = configured[objective["like"]]
        arguments = merge_arguments(parent["arguments"].split(), objective.get("arguments", "").split())
        objective = {**parent, **objective, "arguments": " ".join(arguments)}
    if len({"strength", "symbol", "values"} & objective.keys()) not in (0, 3):
        raise ConfigError(f"study.objectives: '{title}' needs strength, symbol and values, or none of them")
    return objective


def compared_strength(objective: Mapping[str, Any]) -> float | None:
    """Return the strength at which an objective is compared, or None if it has no strength."""
    if not objective.get("values"):
        return None
    return float(objective["values"][0])


def label_of(title: str, objective: Mapping[str, Any], strength: float | None) -> str:
    """Return the title of an objective with its strength in place of its symbol: ``U + 1.15 N`` for ``U + w N``."""
    if strength is None:
        return title
    label, count = re.subn(rf"\b{objective['symbol']}\b", f"{strength:g}", title)
    return label if count else f"{title}, {objective['symbol']} = {strength:g}"


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs at the compared strengths, then with a private bit, then at other strengths."""
    objectives = objectives_of(cfg)
    runs: dict[Key, Job] = {}
    for title, objective in objectives.items():
        runs |= _jobs(cfg, title, objective, compared_strength(objective))
    for title in cfg.with_bit:
        if title in objectives:
            objective = objectives[title]
            runs |= _jobs(cfg, title, objective, compared_strength(objective), bit=True)
    for title, objective in objectives.items():
        for strength in objective.get("values", ())[1:]:
            by_key = _jobs(cfg, title, objective, float(strength))
            runs |= {key: job for key, job in by_key.items() if key.seed < cfg.seeds_at_other_strengths}
    return runs


def _jobs(
    cfg: Config, title: str, objective: Mapping[str, Any], strength: float | None, *, bit: bool = False
) -> dict[Key, Job]:
    """Return the runs of an objective at a strength, by seed."""
    label = label_of(title, objective, strength)
    further = objective["arguments"].split()
    if strength is not None:
        further.append(f"{objective['strength']}={strength:g}")
    if bit:
        label += ", a private bit"
        further.append("policy.private_bits=1")
    arguments = " ".join(merge_arguments(cfg.arguments.split(), further))
    runs = command_jobs(label, cfg.seeds, arguments, cfg.overrides)
    return {Key(title, strength, bit, seed): job for seed, job in enumerate(runs)}
