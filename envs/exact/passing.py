"""The probability that a policy enters a cell at all, and what follows from it, computed exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.layers import Layer
from drest_torch.envs.exact.propagator import Reachable, among_moves, arrive

TINY = 1e-12
"""A smaller probability is a rounding error."""


class Step(NamedTuple):
    """One tick of a policy in every state with time left."""

    layer: Layer
    first: int
    """The index of the first state of the layer among all reachable states."""
    spot: Tensor
    """[n, 4] the spot that each action leads to."""
    chosen: Tensor
    """[n, 4] the probability of each action, given that it takes time."""


def steps(reachable: Reachable, probabilities: Tensor) -> Iterator[Step]:
    """Yield what a policy with these action probabilities [N, 4] does, layer by layer."""
    goto, first = reachable.mdp.goto.reshape(-1, NUM_ACTIONS), 0
    for layer in reachable.layers:
        chosen = among_moves(probabilities[first : first + len(layer.spot)], layer.moving)
        yield Step(layer, first, goto[layer.spot], chosen)
        first += len(layer.spot)


def entered(reachable: Reachable, probabilities: Tensor) -> Tensor:
    """Return [S] the probability that each coin or button is entered; it is 0 where there is none.

    A coin or button is gone once its cell is entered, so the flow into a fresh one is all that counts.
    """
    mdp = reachable.mdp
    found = probabilities.new_zeros(len(mdp.found))
    arrived = probabilities.new_ones(reachable.num_levels)
    for step in steps(reachable, probabilities):
        along = arrived.unsqueeze(-1) * step.chosen
        fresh = mdp.is_fresh(step.spot, step.layer.taken.unsqueeze(-1))
        found.index_add_(0, step.spot.reshape(-1), (along * fresh).reshape(-1))
        arrived = arrive(step.layer, along)[: step.layer.next_states]
    return found


def passed(reachable: Reachable, probabilities: Tensor, spots: Tensor) -> Tensor:
    """Return [B] the probability that a mini-episode enters a spot of its level, whatever is there; [B] one spot each.

    The start is not entered by standing on it.
    """
    gate = torch.zeros(len(reachable.mdp.found), dtype=torch.bool)
    gate[spots] = True
    found = probabilities.new_zeros(reachable.num_levels)
    arrived = probabilities.new_ones(reachable.num_levels)
    level = reachable.mdp.level_of(spots)
    place = torch.full((reachable.mdp.num_levels,), -1).index_put_((level,), torch.arange(len(level)))
    for step in steps(reachable, probabilities):
        along = arrived.unsqueeze(-1) * step.chosen
        enters = gate[step.spot]
        into = place[reachable.mdp.level_of(step.spot)]
        found.index_add_(0, into[enters], along[enters])
        arrived = arrive(step.layer, torch.where(enters, 0, along))[: step.layer.next_states]
    return found


class ByLottery:
    """What becomes of a mini-episode that enters one lottery of its level and no other; C is the most in a level.

    The first lottery of a level is the first of its objects that is one. In levels whose coins all lie in lotteries,
    equally far from the start, `probability` and `coins` hold for every policy; elsewhere they are those of a policy
    that moves at random.
    """

    def __init__(self, reachable: Reachable, gamma: float = 1.0) -> None:
        self.reachable, mdp = reachable, reachable.mdp
        first = int(mdp.level_of(reachable.layers[0].spot[0]))
        levels = mdp.levels[first : first + reachable.num_levels]
        cells = [[(each.row, each.column) for each in level.lotteries] for level in levels]
        self.spots = torch.full((max(map(len, cells), default=0), len(levels)), -1)
        for level, several in enumerate(cells):
            for index, (row, column) in enumerate(several):
                self.spots[index, level] = (first + level) * mdp.num_cells + row * mdp.width + column
        which = torch.full((len(mdp.found),), -1).index_put_(
            (self.spots[self.spots >= 0],), (self.spots >= 0).nonzero()[:, 0]
        )
        into = which[mdp.goto.reshape(-1, NUM_ACTIONS)[reachable.states.spot]]
        uniform = torch.full(into.shape, 1 / NUM_ACTIONS, dtype=torch.float64)
        found = [
            reachable.arrivals(uniform, gamma, without=(into >= 0) & (into != only))
            for only in range(-1, len(self.spots))
        ]
        chance = torch.stack([each.probability - found[0].probability for each in found[1:]] or [found[0].probability])
        gain = torch.stack([each.coins - found[0].coins for each in found[1:]] or [found[0].coins])
        possible = chance > TINY
        self.coins = torch.where(possible, gain, 0) / torch.where(possible, chance, 1)
        """[C, B, K] E[C | L = l] of each lottery"""
        chance = torch.where(possible, chance, 0)
        self.probability = chance / chance.sum(-1, keepdim=True).clamp_min(TINY)
        """[C, B, K] P(L = l) of each lottery; all 0 where a level has fewer"""

    def entered(self, probabilities: Tensor) -> Tensor:
        """Return [C, B] how often a policy with these action probabilities [N, 4] enters each lottery."""
        found = entered(self.reachable, probabilities)
        return torch.where(self.spots >= 0, found[self.spots.clamp_min(0)], 0)
