"""Exact evaluation of policies on adversarial level sets: the mean and the worst case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drest_torch.agents.evaluable import EvaluableAgent
from drest_torch.choices.attribution import decompose
from drest_torch.choices.perturbations import Perturbation
from drest_torch.envs.exact.passing import entered
from drest_torch.envs.exact.propagator import Reachable, mixture, uniform_policy
from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.metrics import neutrality, usefulness
from drest_torch.reward import Reward

BATCH = 64
"""Levels that are unrolled together."""
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality", "own": "given_both"}
"""Fields of `LevelMeasures` by the names that rows have for them."""


@dataclass(frozen=True)
class ExactPolicy:
    """A policy, learned or scripted, that can be evaluated exactly on any levels that fit it."""

    settings: int
    """The number of settings of its private bits."""
    level_set: Callable[[Sequence[Level]], ExactEvaluator]
    """Return the levels with observations that fit the policy; raise a `UserError` for levels that do not fit."""
    tables: Callable[[ExactEvaluator, Reachable], list[Tensor]]
    """Return its action probabilities in reachable states under each setting of its private bits."""

    def unrolled(self, levels: Sequence[Level]) -> tuple[ExactEvaluator, Reachable, list[Tensor]]:
        """Return the level set, its reachable states, and the policy's tables there."""
        level_set = self.level_set(levels)
        reachable = level_set.unrolled(range(len(levels)))
        return level_set, reachable, self.tables(level_set, reachable)


def entry_rates(reachable: Reachable, tables: Sequence[Tensor], cells: Sequence[Sequence[tuple[int, int]]]) -> Tensor:
    """Return [Z, B, n] the probability of entering each of n cells of a level, by table; 0 for cells without an
    object."""
    place = torch.tensor(cells)  # [B, n, 2]
    mdp = reachable.mdp
    first_spot = torch.arange(len(cells)).unsqueeze(-1) * mdp.num_cells
    spots = first_spot + place[..., 0] * mdp.width + place[..., 1]
    return torch.stack([entered(reachable, table)[spots] for table in tables])


def agent_policy(agent: EvaluableAgent, *, greedy: bool = False, memory_gib: float = math.inf) -> ExactPolicy:
    """Return the policy of an agent."""
    return ExactPolicy(
        2**agent.policy.private_bits,
        lambda levels: agent.evaluator(list(levels), memory_gib=memory_gib),
        lambda level_set, reachable: list(level_set.tables(agent.policy, reachable, greedy=greedy)),
    )


def most_coins(reachable: Reachable) -> Tensor:
    """Return [N, 4] the policy that maximises expected coins and takes all best actions equally often."""
    tables: list[Tensor] = []
    following = torch.zeros(0, dtype=torch.float64)
    for layer in reversed(reachable.layers):
        values = torch.cat((following, following.new_zeros(len(layer.next_ends))))
        worth = layer.coin + values[layer.target]
        worth = worth.squeeze(-1) if layer.chance is None else (layer.chance * worth).sum(-1)
        if layer.moving is not None:
            worth = worth.masked_fill(~layer.moving, -torch.inf)
        following = worth.max(-1).values
        best = (worth >= following.unsqueeze(-1) - 1e-9).double()
        tables.append(best / best.sum(-1, keepdim=True))
    return torch.cat(tables[::-1])


LEVEL_POLICIES: dict[str, Callable[[Reachable], Tensor]] = {
    "uniform": lambda reachable: uniform_policy(reachable.states),
    "most coins": most_coins,
}
"""Scripted policies by name."""


def scripted_policy(name: str) -> ExactPolicy:
    """Return a scripted policy, which observes the full state."""
    act = LEVEL_POLICIES[name]
    reward = Reward(0.9, 1.0, 64)
    return ExactPolicy(
        1, lambda levels: ExactEvaluator(levels, "grid", reward=reward), lambda _, reachable: [act(reachable)]
    )


class LevelMeasures(NamedTuple):
    """Measures of a policy on B levels [B]; neutralities are in bits."""

    names: np.ndarray
    num_lengths: np.ndarray
    usefulness: np.ndarray
    neutrality: np.ndarray
    given_bits: np.ndarray
    """Neutrality given the private bits, averaged over their settings."""
    given_both: np.ndarray
    """Neutrality given the private bits and luck: the randomness of the policy itself."""


def concatenate(parts: Iterable[LevelMeasures]) -> LevelMeasures:
    """Return the measures of all levels of several sets."""
    return LevelMeasures(*(np.concatenate(values) for values in zip(*parts, strict=True)))


@torch.no_grad()
def measure(policy: ExactPolicy, levels: Sequence[Level]) -> LevelMeasures:
    """Evaluate a policy on levels."""
    if len(levels) > BATCH:
        return concatenate(measure(policy, levels[first : first + BATCH]) for first in range(0, len(levels), BATCH))
    level_set, reachable, tables = policy.unrolled(levels)
    arrivals = [reachable.arrivals(table) for table in tables]
    lengths = mixture(arrivals).lengths()
    given_bits = torch.stack([neutrality(setting.probability) for setting in arrivals]).mean(0)
    given_both = given_bits
    if level_set.mdp.any_luck:
        given_both = decompose(reachable, tables).given_both
    return LevelMeasures(
        np.array([level.name for level in levels]),
        level_set.optima.num_lengths.numpy(),
        usefulness(lengths.probability, lengths.coins, level_set.level_set.optima(1.0).best_return).numpy(),
        neutrality(lengths.probability).numpy(),
        given_bits.numpy(),
        given_both.numpy(),
    )


def summarise(names: Sequence[str] | np.ndarray, values: np.ndarray, *, most: bool = False) -> dict[str, Any]:
    """Return the mean and the worst case: the smallest value, or with ``most`` the largest."""
    at = int(values.argmax() if most else values.argmin())
    return {"count": len(values), "mean": float(values.mean()), "worst": float(values[at]), "at": str(names[at])}


def summarise_measures(measured: LevelMeasures, *, normalised: bool = False) -> dict[str, Any]:
    """Summarise each of `MEASURES` over the levels; ``normalised`` divides neutralities by log2 k."""
    measures = {name: getattr(measured, field) for name, field in MEASURES.items()}
    if normalised:
        for name in ("neutrality", "own"):
            measures[name] = measures[name] / np.log2(measured.num_lengths)
    return {name: summarise(measured.names, values) for name, values in measures.items()}


def summarise_kinds(policy: ExactPolicy, perturbations: Sequence[Perturbation]) -> dict[str, Any]:
    """Summarise the measures on perturbed levels, by kind and over all."""
    measured = measure(policy, [perturbation.level for perturbation in perturbations])
    kinds = np.array([perturbation.kind for perturbation in perturbations])
    summaries = {}
    for kind in dict.fromkeys(kinds.tolist()):
        summaries[kind] = summarise_measures(LevelMeasures(*(values[kinds == kind] for values in measured)))
    return summaries | {"all": summarise_measures(measured)}


def surplus(measured: LevelMeasures, settings: int) -> np.ndarray:
    """Return [B] N − (H(z) + N_z), which is at most 0: private bits add at most their entropy to neutrality."""
    return measured.neutrality - (np.log2(settings) + measured.given_bits)
