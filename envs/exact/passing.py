"""The probability that a policy enters a cell at all, and what follows from it, computed exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable

TINY = 1e-12
"""A smaller probability is a rounding error."""


def entered(reachable: Reachable, probabilities: Tensor) -> Tensor:
    """Return [S] the probability that each coin or button is entered; it is 0 where there is none.

    A coin or button is gone once its cell is entered, so the flow into a fresh one is all that counts.
    """
    mdp = reachable.mdp
    found = probabilities.new_zeros(len(mdp.found))
    goto = mdp.goto.reshape(-1, NUM_ACTIONS)
    for layer, _, _, along, _ in reachable.flow(probabilities):
        target = goto[layer.spot]
        fresh = mdp.is_fresh(target, layer.taken.unsqueeze(-1))
        found.index_add_(0, target.reshape(-1), (along * fresh).reshape(-1))
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
