"""Optima under luck: m(l) where coins are random, and the best return of policies with P(L = l) = 1.

Both are backward dynamic programmes over the reachable states, for all lengths at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.layers import walk
from drest_torch.envs.levels import LevelError

MAX_HISTORIES = 20_000_000
"""The maximum number of pairs of a state and a total of coins in the search for m(l)."""
MOST_ITERATIONS = 100
PRECISION = 1e-12
"""The tolerance of the search for m(l), as a share of the largest total."""


def best_certain_return(mdp: Mdp, levels: range, lengths: Tensor, gamma: float = 1.0) -> Tensor:
    """Return the largest E[C] over the policies with P(L = l) = 1 [b, K], or NaN if there is no such policy.

    ``lengths`` [b, K] are the lengths of these levels.
    """
    best = torch.empty(0, lengths.shape[1], dtype=torch.float64, device=mdp.device)
    for layer in reversed(list(walk(mdp, levels))):
        ends = torch.where(lengths[layer.next_ends - levels.start] == layer.tick + 1, 0.0, -torch.inf)
        after = torch.cat((best, ends.to(best.dtype)))[layer.target]  # [n, 4, J, K]
        total = after + (gamma**layer.tick * layer.coin).unsqueeze(-1)
        if layer.moving is not None:
            total = torch.where(layer.moving[..., None, None], total, -torch.inf)
        best = _mean(total, layer.chance).amax(1)
    return torch.where((lengths > 0) & (best > -torch.inf), best, torch.nan)


def best_conditional_return(mdp: Mdp, levels: range, lengths: Tensor, gamma: float = 1.0) -> Tensor:
    """Return m(l) [b, K], the largest E[C | L = l] over the policies that can have length l.

    Policies may depend on the whole history, so a policy can choose a length only after good luck. Dinkelbach's method
    maximises this ratio: the maximum is the largest λ such that some policy has E[(C − λ) · 1(L = l)] ≥ 0, and the best
    policy for one λ gives the next λ.
    """
    layers = list(_histories(mdp, levels, gamma))
    scale = 1 + max(float(layer.totals.abs().max()) for layer in layers if len(layer.totals))
    best = torch.full(lengths.shape, -scale, dtype=torch.float64, device=mdp.device)
    for _ in range(MOST_ITERATIONS):
        coins, probability = _best_policy(layers, lengths, best)
        ratio = torch.where(probability > 0, coins / torch.where(probability > 0, probability, 1), best)
        gain, best = ratio - best, torch.maximum(ratio, best)
        if not (gain > PRECISION * scale).any():
            break
    return torch.where(lengths > 0, best, 0)


class _Histories(NamedTuple):
    """The n pairs of a state in a layer and a total of coins on arrival, and the results of actions."""

    tick: int
    target: Tensor
    """[n, 4, J] index into the pairs of the next layer, whose ends come last."""
    chance: Tensor | None
    """[n, 4, J]"""
    moving: Tensor | None
    """[n, 4]"""
    ends: Tensor
    """[e] the level of each end of the next layer, relative to the first level."""
    totals: Tensor
    """[e] the total of coins at each end."""


def _histories(mdp: Mdp, levels: range, gamma: float) -> Iterator[_Histories]:
    """Yield the pairs of states and totals of coins, layer by layer."""
    state = torch.arange(len(levels), device=mdp.device)
    total = torch.zeros(len(levels), dtype=torch.float64, device=mdp.device)
    number = 0
    for layer in walk(mdp, levels):
        number += len(state)
        if number > MAX_HISTORIES:
            raise LevelError(
                f"{mdp.levels[levels.start].place}: the coins of its lotteries, and those of {len(levels) - 1} levels "
                f"beside it, have more than {MAX_HISTORIES:,} totals to search for the most in each trajectory-length; "
                "expected fewer lotteries, or reward.gamma=1"
            )
        target = layer.target[state]
        after = (total[:, None, None] + gamma**layer.tick * layer.coin[state]).expand(target.shape)
        totals, rank = torch.unique(after, return_inverse=True)
        pairs, index = torch.unique(target * len(totals) + rank, return_inverse=True)
        next_state, next_total = pairs // len(totals), totals[pairs % len(totals)]
        count = int((next_state < layer.next_states).sum())
        ends = layer.next_ends[next_state[count:] - layer.next_states] - levels.start
        chance, moving = _rows(layer.chance, state), _rows(layer.moving, state)
        yield _Histories(layer.tick, index, chance, moving, ends, next_total[count:])
        state, total = next_state[:count], next_total[:count]


def _rows(table: Tensor | None, index: Tensor) -> Tensor | None:
    """Return these rows of a table, or None if there is no table."""
    if table is None:
        return None
    return table[index]


def _best_policy(layers: list[_Histories], lengths: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Return E[C · 1(L = l)] and P(L = l) [b, K] of the policy with the largest E[(C − floor) · 1(L = l)]."""
    values = torch.empty(3, 0, lengths.shape[1], dtype=torch.float64, device=lengths.device)
    for layer in reversed(layers):
        hits = (lengths[layer.ends] == layer.tick + 1).double()
        totals = layer.totals.unsqueeze(-1)
        ends = torch.stack((hits * (totals - floor[layer.ends]), hits * totals, hits))
        after = torch.cat((values, ends), 1)
        value = _mean(after[0][layer.target], layer.chance)
        if layer.moving is not None:
            value = torch.where(layer.moving.unsqueeze(-1), value, -torch.inf)
        best, action = value.max(1, keepdim=True)
        target = _for_action(layer.target, action)
        coins, probability = (table.gather(0, target.flatten(0, 1)).reshape(target.shape) for table in after[1:])
        if layer.chance is not None:
            chance = _for_action(layer.chance, action)
            coins, probability = coins * chance, probability * chance
        values = torch.stack((best.squeeze(1), coins.sum(1), probability.sum(1)))
    return values[1], values[2]


def _for_action(numbers: Tensor, action: Tensor) -> Tensor:
    """Return the numbers [n, J, K] of the chosen action [n, 1, K] for each length, from all actions [n, 4, J]."""
    shape = (-1, -1, numbers.shape[-1], -1)
    return numbers.unsqueeze(-1).expand(-1, -1, -1, action.shape[-1]).gather(1, action.unsqueeze(2).expand(shape))[:, 0]


def _mean(values: Tensor, chance: Tensor | None) -> Tensor:
    """Return the mean [n, 4, K] of values [n, 4, J, K] over the outcomes, with their chances [n, 4, J]."""
    if chance is None:
        return values.squeeze(2)
    return torch.where(chance.unsqueeze(-1) > 0, values * chance.unsqueeze(-1), 0).sum(2)
