"""The optimal agent of utility indifference: it plans for the longest length, and shutdown cuts its plan short.

It is trained as if shutdown came at the longest length T, whatever is pressed (`solver.with_longest_end`). With T ticks
it would collect the most coins that T ticks allow; of several such plans each is equally likely.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.soft import SHARP, trajectory_sums
from drest_torch.envs.exact.solver import with_longest_end


def indifferent_policy(reachable: Reachable) -> Tensor:
    """Return the action probabilities [N, 4] of the indifferent agent, in the states of a whole level set.

    States that no plan passes get uniform probabilities.
    """
    planned = Reachable(with_longest_end(reachable.mdp))
    _, best = trajectory_sums(planned, price_of_coins(planned), torch.zeros(len(planned), NUM_ACTIONS))
    elapsed = [torch.full_like(layer.spot, layer.tick) for layer in reachable.layers]
    states, mdp = reachable.states, planned.mdp
    time_left = mdp.shutdown[mdp.level_of(states.spot)] - torch.cat(elapsed)
    number = mdp.states.number(states.spot, states.taken, time_left)
    of_plans = planned.states
    numbers, order = mdp.states.number(of_plans.spot, of_plans.taken, of_plans.time_left).sort()
    policy: Tensor = best[0][order[torch.searchsorted(numbers, number)]]
    total = policy.sum(-1, keepdim=True)
    return torch.where(total > 0, policy / total, 1 / NUM_ACTIONS)


def price_of_coins(planned: Reachable) -> Tensor:
    """Return the price of a coin [B, K], so high that only the plans with the most coins count."""
    most = planned.mdp.coin.reshape(planned.num_levels, -1).amax(-1, keepdim=True)
    return (1 / (SHARP * most)).expand_as(planned.lengths).double()
