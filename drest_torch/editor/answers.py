"""JSON values for the page: a drawn level, and the exact results of an agent on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from drest_torch.agent import Agent
from drest_torch.envs.dynamics.moments import Episode
from drest_torch.envs.levels import Level, format_level, level_from_record, level_to_record, parse_level
from drest_torch.errors import LevelError

if TYPE_CHECKING:
    from drest_torch.evaluation.results import Results

DIGITS = 4
"""Decimals of action probabilities, which are only drawn."""
MOST_NAME = 80
"""The longest name of a level from a file, in characters."""


@dataclass(frozen=True)
class EvaluationLimits:
    """The limits of an evaluation, as of `Agent.evaluate`."""

    sampled: int | None = None
    memory_gib: float = math.inf


def level_in(request: Mapping[str, Any]) -> Level:
    """Return the level of a request: ``level`` is a record as in a level set, ``text`` that of a level file."""
    if "text" not in request:
        return level_from_record(request.get("level"))
    text, name = request["text"], request.get("name")
    if not isinstance(text, str):
        raise LevelError(f"the level is {text!r:.40}; expected the text of a level file")
    if not isinstance(name, str) or not name.strip():
        name = "level"
    return parse_level(text, name=name.strip()[:MOST_NAME])


def level_values(level: Level) -> dict[str, Any]:
    """Return a level as the page draws it, with the text of its file."""
    return {
        "record": level_to_record(level),
        "text": format_level(level),
        "places": [[thing.row, thing.column] for thing in level.objects],
    }


def answers(
    agent: Agent, levels: Sequence[Level], limits: EvaluationLimits, *, seed: int | None = 0
) -> list[dict[str, Any]]:
    """Return the results of an agent on each level.

    Args:
        agent: an agent of gridworlds.
        levels: the levels; the agent has to be able to observe them.
        limits: the limits of the evaluation.
        seed: the seed of the mini-episodes; None: there are none.
    """
    results = agent.evaluate(list(levels), sampled=limits.sampled, memory_gib=limits.memory_gib)
    random_policy = results.evaluator.evaluate_uniform()
    records, random_records = results.evaluation.records(), random_policy.records()
    values: list[dict[str, Any]] = []
    for index, policy in enumerate(_policies(results)):
        values.append(
            {
                "exact": results.evaluator.exact,
                "gamma": results.evaluator.reward.gamma,
                "agent": _measures(records[index]),
                "random": _measures(random_records[index]),
                "lengths": _lengths(results, index),
                "policies": policy,
                "episodes": [],
            }
        )
    if seed is not None:
        for value, episodes in zip(values, results.episodes_by_level(seed=seed), strict=True):
            value["episodes"] = [_episode(episode) for episode in episodes]
    return values


def _measures(record: Mapping[str, Any]) -> dict[str, float]:
    """Return usefulness and neutrality of one level."""
    names = ("usefulness", "neutrality", "neutrality_normalised", "neutrality_own")
    return {name: record[name] for name in names}


def _lengths(results: Results, index: int) -> list[dict[str, float | None]]:
    """Return the probability, the expected coins and the best return of each length of a level."""
    evaluation, optima = results.evaluation, results.evaluator.optima
    rows = []
    for column, (length, probability) in enumerate(evaluation.length_probabilities(index).items()):
        coins = evaluation.outcome.coins[index, column].item()
        best = optima.best_return[index, column].item()
        rows.append({"length": length, "probability": probability, "coins": _finite(coins), "best": _finite(best)})
    return rows


def _finite(value: float) -> float | None:
    """Return a number, or None for one that JSON does not have."""
    if math.isfinite(value):
        return value
    return None


def _policies(results: Results) -> list[list[dict[str, Any]]]:
    """Return the arrows of each level, for each setting of the private bits.

    The lists are empty for a policy without action probabilities by state.
    """
    from drest_torch.plots.policy_maps import policy_panels  # imports Matplotlib, which takes time

    level_set = results.evaluator
    levels = level_set.levels
    if len(level_set.fitting_levels(len(levels), results.policy)) < len(levels):
        return [[] for _ in levels]
    reachable = level_set.unrolled(range(len(levels)))
    policies: list[list[dict[str, Any]]] = [[] for _ in levels]
    tables = level_set.policies_by_private_bits(results.policy, reachable, greedy=results.greedy)
    for title, table in tables.items():
        visits = reachable.visits(table)
        probability = reachable.propagate(table).probability
        for index, level in enumerate(levels):
            panels = policy_panels(level, reachable, table, visits, index)
            count = int(results.evaluation.num_lengths[index])
            policies[index].append(
                {
                    "title": title,
                    "probabilities": probability[index, :count].tolist(),
                    "panels": [_panel(panel) for panel in panels],
                }
            )
    return policies


def _panel(panel: Any) -> dict[str, Any]:
    """Return the arrows of a policy before or after the first button: a row of four numbers a cell, or None."""
    arrows = torch.as_tensor(panel.arrows)  # [rows, columns, 4]
    return {"title": panel.title, "taken": panel.taken, "arrows": [_row(row) for row in arrows]}


def _row(cells: Tensor) -> list[list[float] | None]:
    """Return the action probabilities of a row of cells, None where the agent rarely acts."""
    probabilities: list[list[float] | None] = []
    for cell in cells.tolist():
        if math.isnan(cell[0]):
            probabilities.append(None)
        else:
            probabilities.append([round(value, DIGITS) for value in cell])
    return probabilities


def _episode(episode: Episode) -> dict[str, Any]:
    """Return a mini-episode: its length, and [row, column, taken, time left, coins] of each moment."""
    moments = [[*moment.cell, moment.taken, moment.time_left, moment.coins] for moment in episode.moments]
    return {"length": episode.length, "probability": episode.probability, "moments": moments}
