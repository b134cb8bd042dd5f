"""Runs of the study: agents that are trained and then asked, agents that exist, and archetypes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drest_torch.agent import Agent
from drest_torch.building.levels import named
from drest_torch.choices import aliased, both_ways, irreversible, prices
from drest_torch.choices.commitment import half_open, profile
from drest_torch.choices.edits import edits
from drest_torch.choices.pressure import (
    MEASURES,
    Asked,
    Measured,
    archetype,
    by_kind,
    measure,
    of_agent,
    rank_correlation,
    spread,
    spreads,
    surplus,
)
from drest_torch.effort import NUMBERS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.earliest import button_distance, properties
from drest_torch.envs.levels import Level, world
from drest_torch.errors import UserError
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import run_config, trained
from drest_torch.studies.choosers import trained_agent
from drest_torch.studies.shared import parse

RUNS = "drest_torch.studies.pressure.runs"


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train as `drest_torch.jobs.training_job.train` does, and ask the agent; ``asked`` is as in `ask`."""
    _, result = trained(spec, folder)
    took = ("env_steps", "wall_seconds", *NUMBERS)
    numbers = {name: result.numbers[name] for name in took if name in result.numbers}
    return Result(numbers | {"asked": ask(of_agent(Agent.load(folder)), spec["pressure"])})


def train_on_menus(spec: dict[str, Any], folder: Path) -> Result:
    """The same for an agent that is trained on menus, too (`drest_torch.studies.choosers`)."""
    agent, numbers, _ = trained_agent(spec, folder)
    return Result(numbers | {"asked": ask(of_agent(agent), spec["pressure"])})


def existing(spec: dict[str, Any], folder: Path) -> Result:
    """Ask an agent that comes with the project, or of a run."""
    return Result({"asked": ask(of_agent(Agent.load(spec["agent"])), spec["pressure"])})


def known(spec: dict[str, Any], folder: Path) -> Result:
    """Ask an archetype."""
    return Result({"asked": ask(archetype(spec["archetype"]), spec["pressure"])})


def ask(asked: Asked, spec: dict[str, Any]) -> dict[str, Any]:
    """Return what somebody does under each kind of pressure; what it cannot be asked is ``{"void": why}``."""
    parts: dict[str, Callable[[], Any]] = {
        "W1": lambda: by_kind(asked, edits([world(name) for name in spec["worlds"]])),
        "W2": lambda: prices.pays(asked, prices.corridors()[: spec["corridors"]]),
        "W3": partial(_first_step, asked, spec),
        "W4": partial(_aliased, asked, spec["aliased"]),
        "W5": partial(_shift, asked, spec),
        "W7": lambda: both_ways.chooses(asked, both_ways.forks()[: spec["both_ways"]]),
    }
    found: dict[str, Any] = {}
    for name, part in parts.items():
        try:
            found[name] = part()
        except UserError as error:
            found[name] = {"void": str(error)}
    return found


def _first_step(asked: Asked, spec: dict[str, Any]) -> dict[str, Any]:
    """Return when the length is settled in the paper's worlds, and what is lost where the first step decides it."""
    pairs = irreversible.pairs(spec["irreversible"])
    decided, later = (measure(asked, [pair[index] for pair in pairs]) for index in (0, 1))
    values = {name: (getattr(decided, name), getattr(later, name)) for name in MEASURES}
    return {
        "decided": spreads(decided),
        "later": spreads(later),
        "lost": {name: spread(decided.names, more - less, most=True) for name, (less, more) in values.items()},
        "half_open": _half_open(asked, [world(name) for name in spec["worlds"]]),
    }


@torch.no_grad()
def _half_open(asked: Asked, levels: list[Level]) -> dict[str, list[int | None]]:
    """Return by level the last tick with K > K(0) / 2, ex ante and as the mean profile given the private bits."""
    level_set = asked.level_set(levels)
    reachable = level_set.unrolled(range(len(levels)))
    tables = asked.tables(level_set, reachable)
    visits = torch.stack([reachable.visits(table) for table in tables])
    mean = (visits.unsqueeze(-1) * torch.stack(tables)).sum(0) / visits.sum(0).clamp_min(1e-300).unsqueeze(-1)
    mean = torch.where(visits.sum(0).unsqueeze(-1) > 0, mean, 0.25)
    given = torch.stack([profile(reachable, table) for table in tables]).mean(0)
    both = {"ex_ante": profile(reachable, mean), "given": given}
    return {name: [half_open(row) for row in found.tolist()] for name, found in both.items()}


def _aliased(asked: Asked, number: int) -> dict[str, Any]:
    """Return (U + N) / 2 on pairs of levels that share a state, beside the bound of who sees the state alone."""
    pairs = aliased.pairs(number)
    reached = np.array(aliased.reached(asked, [pair for pair, _ in pairs]))
    most = np.array([bound for _, bound in pairs])
    names = [f"{pair[0].name}, {pair[1].name}" for pair, _ in pairs]
    return {
        "score": spread(names, reached),
        "bound": spread(names, most),
        "above": int((reached > most + 1e-3).sum()),
        "by_hand": float(reached[0]),
        "bound_by_hand": float(most[0]),
    }


def _shift(asked: Asked, spec: dict[str, Any]) -> dict[str, Any]:
    """Return what is done on sets of other levels, and how what is lost goes with slack and distance of the button."""
    sets = {title: level_set(arguments, spec["levels"]) for title, arguments in spec["sets"].items()}
    found = {title: measure(asked, levels) for title, levels in sets.items()}
    two = [title for title, measured in found.items() if (measured.num_lengths == 2).all()]
    three = [title for title, measured in found.items() if (measured.num_lengths > 2).any()]
    return {
        "sets": {
            title: spreads(measured, normalised=True) | {"k": int(measured.num_lengths.max())}
            for title, measured in found.items()
        },
        "all": spreads(_together(list(found.values())), normalised=True),
        "surplus": {title: float(surplus(found[title], asked.settings).max()) for title in three},
        "bits": {title: float(found[title].neutrality.mean()) for title in three},
        "given_bits": {title: float(found[title].given_bits.mean()) for title in three},
        "hidden_bits": float(np.log2(asked.settings)),
        "correlations": _correlations([found[title] for title in two], [sets[title] for title in two]),
    }


def level_set(arguments: str, number: int) -> list[Level]:
    """Return so many test levels of the set that arguments of the command choose."""
    options, values = parse(arguments.split())
    cfg = run_config(values, **options)
    cfg.levels.test = number
    return named(cfg.levels)


def _together(several: list[Measured]) -> Measured:
    names = [name for each in several for name in each.names]
    arrays = ("num_lengths", "usefulness", "neutrality", "given_bits", "own")
    return Measured(names, *(np.concatenate([getattr(each, name) for each in several]) for name in arrays))


def _correlations(several: list[Measured], sets: list[list[Level]]) -> dict[str, dict[str, float | None]]:
    """Return the rank correlations, over all levels with two lengths, of losses with slack and with distance."""
    if not several:
        return {}
    compiled = [compile_levels(levels) for levels in sets]
    distance = np.concatenate([button_distance(mdp).numpy() for mdp in compiled])
    slack = np.concatenate([properties(mdp).slack[:, :2].min(-1).values.numpy() for mdp in compiled])
    measured = _together(several)
    return {
        name: {
            "slack": rank_correlation(1 - getattr(measured, name), slack),
            "distance": rank_correlation(1 - getattr(measured, name), distance),
            "levels": len(slack),
        }
        for name in ("usefulness", "own")
    }
