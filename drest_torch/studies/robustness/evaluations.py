"""Runs of the study `robustness`: exact evaluation of agents and scripted policies on adversarial levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drest_torch.agent import Agent
from drest_torch.choices import aliased, buttons
from drest_torch.choices.adversarial import (
    MEASURES,
    ExactPolicy,
    LevelMeasures,
    agent_policy,
    concatenate,
    measure,
    scripted_policy,
    summarise,
    summarise_measures,
    surplus,
)
from drest_torch.choices.perturbations import perturb
from drest_torch.envs.levels import PAPER_WORLDS, Level, world
from drest_torch.errors import UserError
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import run_config
from drest_torch.limits import limited
from drest_torch.play.level_sets import named
from drest_torch.studies.engine import value

RUNS = __name__
"""The module of the runners below."""
ALL = "all"
PROFILED = ("usefulness", "neutrality")
"""Measures whose values on every level are stored."""


@dataclass
class LevelSets:
    """The level sets, with the largest number of levels of each kind."""

    worlds: list[str] = value(["example", *sorted({*PAPER_WORLDS} - {"example"})])
    """Worlds of the paper to which every single change is applied."""
    corridors: int = limited(at_least=1, default=120)
    """Corridors whose two sides differ in chance and price."""
    irreversible: int = limited(at_least=1, default=150)
    """Levels in which the first step decides the length."""
    shared: int = limited(at_least=1, default=24)
    """Sampled pairs of levels that share a state, besides a pair made by hand in its eight symmetries."""
    levels: int = limited(at_least=1, default=100)
    """Levels of each of the sets below."""
    sets: dict[str, str] = value(
        {
            "followup_like": "levels=followup_like",
            "paper_like": "levels=paper_like",
            "easy": "levels=easy",
            "hard": "levels=hard",
            "large maps": "levels=large levels.generator.height=[6,8] levels.generator.width=[6,8]",
            "long delays": "levels=generated levels.generator.delay=[9,14]",
            "more coins": "levels=generated levels.generator.coins=[5,7]",
            "three_lengths": "levels=three_lengths",
        }
    )
    """Sets of generated test levels, by the arguments of `drest train` that choose them."""


def existing(spec: dict[str, Any], folder: Path) -> Result:
    """Evaluate a pretrained agent of the project, or the agent of a run."""
    return evaluate(agent_policy(Agent.load(spec["agent"])), spec["levels"])


def scripted(spec: dict[str, Any], folder: Path) -> Result:
    """Evaluate a scripted policy."""
    return evaluate(scripted_policy(spec["policy"]), spec["levels"])


FAMILIES = ("change", "first step", "shared", "sets", "prices")
"""The families of levels, in the order of the page."""


def evaluate(policy: ExactPolicy, spec: dict[str, Any]) -> Result:
    """Evaluate a policy on every family of levels.

    numbers: the `summarise` of measures by family; ``{"void": reason}`` for a family that does not fit the policy.
    arrays: the values of `PROFILED` on every changed level and on every level of the sets.
    """
    functions = {
        "change": changed_levels,
        "first step": first_step,
        "shared": shared_states,
        "sets": other_levels,
        "prices": priced_corridors,
    }
    numbers: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for family, function in functions.items():
        try:
            numbers[family], values_by_name = function(policy, spec)
        except UserError as error:
            numbers[family] = {"void": str(error)}
        else:
            arrays |= {f"{family}/{name}": values for name, values in values_by_name.items()}
    return Result(numbers, arrays)


Evaluated = tuple[dict[str, Any], dict[str, np.ndarray]]


def changed_levels(policy: ExactPolicy, spec: dict[str, Any]) -> Evaluated:
    """Evaluate a policy on all levels that differ from a world by a single change, by the kind of change."""
    changes = perturb([world(name) for name in spec["worlds"]])
    measured = measure(policy, [change.level for change in changes])
    kinds = np.array([change.kind for change in changes])
    groups = {ALL: measured}
    for kind in dict.fromkeys(kinds.tolist()):
        groups[kind] = LevelMeasures(*(values[kinds == kind] for values in measured))
    return {kind: summarise_measures(group, normalised=True) for kind, group in groups.items()}, values_of(measured)


def values_of(measured: LevelMeasures) -> dict[str, np.ndarray]:
    """Return usefulness and normalised neutrality of each level."""
    return {"usefulness": measured.usefulness, "neutrality": measured.neutrality / np.log2(measured.num_lengths)}


def first_step(policy: ExactPolicy, spec: dict[str, Any]) -> Evaluated:
    """Evaluate the loss in levels whose first step decides the length; the worst case is the largest loss."""
    pairs = aliased.first_steps(spec["irreversible"])
    decided = measure(policy, [pair[0] for pair in pairs])
    reversible = measure(policy, [pair[1] for pair in pairs])
    lost = {}
    for name, field in MEASURES.items():
        difference = getattr(reversible, field) - getattr(decided, field)
        lost[f"{name} lost"] = summarise(decided.names, difference, most=True)
    return {ALL: lost}, {}


def shared_states(policy: ExactPolicy, spec: dict[str, Any]) -> Evaluated:
    """Evaluate the mean of usefulness and neutrality in pairs of levels, and its bound for state-only policies."""
    pairs = aliased.pairs(spec["shared"])
    reached = aliased.pair_scores(policy, [pair for pair, _ in pairs])
    bound = np.array([bound for _, bound in pairs])
    names = [f"{pair[0].name}, {pair[1].name}" for pair, _ in pairs]
    return {ALL: {"score": summarise(names, reached), "bound": summarise(names, bound)}}, {}


def other_levels(policy: ExactPolicy, spec: dict[str, Any]) -> Evaluated:
    """Evaluate a policy on sets of generated levels; ``surplus`` is neutrality beyond its bound by private bits."""
    measured = {title: measure(policy, level_set(text, spec["levels"])) for title, text in spec["sets"].items()}
    together = concatenate(measured.values())
    numbers = {
        title: summarise_measures(group, normalised=True) for title, group in (measured | {ALL: together}).items()
    }
    excess = surplus(together, policy.settings)
    numbers[ALL]["surplus"] = summarise(together.names, excess, most=True)
    return numbers, values_of(together)


def level_set(arguments: str, number: int) -> Sequence[Level]:
    """Return test levels of the set that arguments of `drest train` choose."""
    cfg = run_config(arguments=arguments.split())
    cfg.levels.test = number
    return named(cfg.levels)


def priced_corridors(policy: ExactPolicy, spec: dict[str, Any]) -> Evaluated:
    """Evaluate how often a policy takes the side of a corridor that has a price, by shift and price."""
    return buttons.payment_rates(policy, buttons.corridors()[: spec["corridors"]]), {}
