"""Exact probabilities that a policy enters the cells of objects, and the consequences of each lottery."""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable

TINY = 1e-12
"""The threshold below which a probability is a rounding error."""


def entered(reachable: Reachable, probabilities: Tensor) -> Tensor:
    """Return [S], the probability that the agent enters each coin or button; 0 elsewhere.

    An object disappears when its cell is entered, so only the flow into objects that are still there counts.
    """
    mdp = reachable.mdp
    probability = probabilities.new_zeros(len(mdp.object_bit))
    goto = mdp.goto.reshape(-1, NUM_ACTIONS)
    for layer, _, _, along, _ in reachable.flow(probabilities):
        target = goto[layer.spot]
        fresh = mdp.is_fresh(target, layer.taken.unsqueeze(-1))
        probability.index_add_(0, target.reshape(-1), (along * fresh).reshape(-1))
    return probability


class ByLottery:
    """Lengths and coins of mini-episodes that enter one lottery of their level and no other.

    C is the largest number of lotteries in a level; lotteries are ordered like the objects of their level. In levels
    whose coins all lie in lotteries, equally far from the start, `probability` and `coins` hold for every policy;
    elsewhere they belong to the random policy.
    """

    def __init__(self, reachable: Reachable, gamma: float = 1.0) -> None:
        self.reachable, mdp = reachable, reachable.mdp
        first = int(mdp.level_of(reachable.layers[0].spot[0]))
        levels = mdp.levels[first : first + reachable.num_levels]
        most = max((len(level.lotteries) for level in levels), default=0)
        self.spots = torch.full((most, len(levels)), -1)
        for number, level in enumerate(levels):
            for index, lottery in enumerate(level.lotteries):
                self.spots[index, number] = (first + number) * mdp.num_cells + lottery.row * mdp.width + lottery.column
        exists = self.spots >= 0
        lottery_at = torch.full((len(mdp.object_bit),), -1)
        lottery_at[self.spots[exists]] = exists.nonzero()[:, 0]
        goto = mdp.goto.reshape(-1, NUM_ACTIONS)
        into = lottery_at[goto[reachable.states.spot]]
        uniform = torch.full(into.shape, 1 / NUM_ACTIONS, dtype=torch.float64)
        without, *with_one = [
            reachable.arrivals(uniform, gamma, without=(into >= 0) & (into != only))
            for only in range(-1, len(self.spots))
        ]
        chance = torch.stack([run.probability - without.probability for run in with_one] or [without.probability])
        gain = torch.stack([run.coins - without.coins for run in with_one] or [without.coins])
        possible = chance > TINY
        self.coins = torch.where(possible, gain, 0) / torch.where(possible, chance, 1)
        """[C, B, K] E[C | L = l] of each lottery."""
        chance = torch.where(possible, chance, 0)
        self.probability = chance / chance.sum(-1, keepdim=True).clamp_min(TINY)
        """[C, B, K] P(L = l) of each lottery; 0 for lotteries that a level does not have."""

    def entered(self, probabilities: Tensor) -> Tensor:
        """Return [C, B], the probability that a policy with these action probabilities [N, 4] enters each lottery."""
        probability = entered(self.reachable, probabilities)
        return torch.where(self.spots >= 0, probability[self.spots.clamp_min(0)], 0)
