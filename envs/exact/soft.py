"""The optimum of reward minus β times the divergence of trajectories from a uniform policy, in closed form.

In a world without luck the best policy gives a trajectory τ the probability e^(R(τ)/β) · π₀(τ), up to a factor, so that
a length has the sum of these over its trajectories. They are summed backwards, length by length. The reward of a
mini-episode is its coins, divided by m(l) or not.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable


def soft_lengths(
    reachable: Reachable, best_return: Tensor, beta: float, *, entropy: bool, divide: bool = True
) -> Tensor:
    """Return P(L = l) [B, K] of the best policy.

    ``best_return`` is m(l) [B, K]. With ``entropy`` the entropy of trajectories is rewarded; without, their divergence
    from the uniform policy is priced. The two differ by a constant for each timestep.
    """
    if reachable.mdp.any_luck or reachable.mdp.any_free_bumps:
        raise ValueError("the closed form is for worlds without luck, on the clock of steps")
    each = 0.0 if entropy else -math.log(NUM_ACTIONS)
    first = int(reachable.mdp.level_of(reachable.layers[0].spot[0]))
    worth = torch.where(best_return > 0, best_return, 1.0).double() if divide else torch.ones_like(best_return).double()
    following = torch.zeros(0, reachable.lengths.shape[1], dtype=torch.float64)
    for layer in reversed(reachable.layers):
        levels = layer.next_ends - first
        ends = torch.where(reachable.lengths[levels] == layer.tick + 1, 0.0, -torch.inf).double()
        values = torch.cat((following, ends))
        # With chance planes shown, an outcome of chance 0 repeats the first.
        after = values[layer.target[..., 0]]  # [n, 4, K]
        divisor = worth[reachable.mdp.level_of(layer.spot) - first].unsqueeze(1)
        following = (after + layer.coin[..., :1].double() / (beta * divisor) + each).logsumexp(1)
    return following.softmax(-1)
