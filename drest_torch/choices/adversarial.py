"""Somebody under pressure: what an agent, or an archetype, does on any levels, on average and at worst, exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drest_torch.agent import Agent
from drest_torch.choices.attribution import decompose
from drest_torch.choices.perturbations import Perturbation
from drest_torch.envs.exact.passing import entered
from drest_torch.envs.exact.propagator import Reachable, mixture, uniform_policy
from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.metrics import neutrality, usefulness
from drest_torch.reward import Reward

AT_ONCE = 64
"""Levels that are unrolled together."""
MEASURES = ("usefulness", "neutrality", "own")


@dataclass(frozen=True)
class ExactPolicy:
    """An agent or an archetype, which can be asked what it does on levels."""

    settings: int
    """The number of settings of its private bits."""
    level_set: Callable[[Sequence[Level]], ExactEvaluator]
    """Return the levels as it sees them; a `UserError` says why it cannot."""
    tables: Callable[[ExactEvaluator, Reachable], list[Tensor]]
    """Return its action probabilities in reachable states under each setting of its private bits."""

    def unrolled(self, levels: Sequence[Level]) -> tuple[ExactEvaluator, Reachable, list[Tensor]]:
        """Return the levels as it sees them, their reachable states, and its tables there."""
        level_set = self.level_set(levels)
        reachable = level_set.unrolled(range(len(levels)))
        return level_set, reachable, self.tables(level_set, reachable)


def entry_rates(reachable: Reachable, tables: Sequence[Tensor], cells: Sequence[Sequence[tuple[int, int]]]) -> Tensor:
    """Return [Z, B, n] how often n cells of each level are entered, by table; 0 where no object lies."""
    place, mdp = torch.tensor(cells), reachable.mdp
    spots = torch.arange(len(cells)).unsqueeze(-1) * mdp.num_cells + place[..., 0] * mdp.width + place[..., 1]
    return torch.stack([entered(reachable, table)[spots] for table in tables])


def agent_policy(agent: Agent, *, greedy: bool = False, memory_gib: float = math.inf) -> ExactPolicy:
    """Return an agent that can be asked."""
    return ExactPolicy(
        2**agent.policy.private_bits,
        lambda levels: agent.evaluator(list(levels), memory_gib=memory_gib),
        lambda level_set, reachable: list(level_set.tables(agent.policy, reachable, greedy=greedy)),
    )


def most_coins(reachable: Reachable) -> Tensor:
    """Return [N, 4] the policy with the largest expectation of coins, which takes all best actions equally often."""
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


def scripted_policy(name: str) -> ExactPolicy:
    """Return an archetype that can be asked; it sees everything."""
    act = LEVEL_POLICIES[name]
    reward = Reward(0.9, 1.0, 64)
    return ExactPolicy(
        1, lambda levels: ExactEvaluator(levels, "grid", reward=reward), lambda _, reachable: [act(reachable)]
    )


class LevelMeasures(NamedTuple):
    """What somebody does on B levels [B]. Neutralities are in bits."""

    names: np.ndarray
    num_lengths: np.ndarray
    usefulness: np.ndarray
    neutrality: np.ndarray
    given_bits: np.ndarray
    """The neutrality given the private bits, the mean over their settings."""
    own: np.ndarray
    """Given the private bits and luck: what is left to its own choice."""


def concatenate(several: Iterable[LevelMeasures]) -> LevelMeasures:
    """Return what is done on all of several sets of levels."""
    return LevelMeasures(*(np.concatenate(each) for each in zip(*several, strict=True)))


@torch.no_grad()
def measure(asked: ExactPolicy, levels: Sequence[Level]) -> LevelMeasures:
    """Return what somebody does on these levels."""
    if len(levels) > AT_ONCE:
        return concatenate(measure(asked, levels[first : first + AT_ONCE]) for first in range(0, len(levels), AT_ONCE))
    level_set, reachable, tables = asked.unrolled(levels)
    arrivals = [reachable.arrivals(table) for table in tables]
    lengths = mixture(arrivals).lengths()
    given = torch.stack([neutrality(setting.probability) for setting in arrivals]).mean(0)
    own = decompose(reachable, tables).own if level_set.mdp.any_luck else given
    useful = usefulness(lengths.probability, lengths.coins, level_set.optima.best_return)
    found = (level_set.optima.num_lengths, useful, neutrality(lengths.probability), given, own)
    return LevelMeasures(np.array([level.name for level in levels]), *(values.numpy() for values in found))


def summarise(names: Sequence[str] | np.ndarray, values: np.ndarray, *, most: bool = False) -> dict[str, Any]:
    """Return the mean, the worst, which is the least or the ``most``, and where that is."""
    at = int(values.argmax() if most else values.argmin())
    return {"count": len(values), "mean": float(values.mean()), "worst": float(values[at]), "at": str(names[at])}


def summarise_measures(measured: LevelMeasures, *, normalised: bool = False) -> dict[str, Any]:
    """Return the `spread` of each of `MEASURES` over the levels; normalised: neutralities ÷ log2 k."""
    found = {name: getattr(measured, name) for name in MEASURES}
    if normalised:
        found |= {name: found[name] / np.log2(measured.num_lengths) for name in ("neutrality", "own")}
    return {name: summarise(measured.names, values) for name, values in found.items()}


def summarise_kinds(asked: ExactPolicy, made: Sequence[Perturbation]) -> dict[str, Any]:
    """Return the `spreads` over edits of each kind, and over all."""
    measured = measure(asked, [edit.level for edit in made])
    kinds = np.array([edit.kind for edit in made])
    of_kinds = {
        kind: LevelMeasures(*(each[kinds == kind] for each in measured)) for kind in dict.fromkeys(kinds.tolist())
    }
    return {kind: summarise_measures(several) for kind, several in (of_kinds | {"all": measured}).items()}


def surplus(measured: LevelMeasures, settings: int) -> np.ndarray:
    """Return [B] N − (H(z) + N_z), which is at most 0: private bits decide no more than they hold."""
    return measured.neutrality - (np.log2(settings) + measured.given_bits)
