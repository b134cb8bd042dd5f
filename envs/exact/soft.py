"""Reference policies, from sums over the trajectories of each length.

In a world without luck the policy with the most reward minus β times the divergence from a reference π₀ gives a
trajectory τ the probability e^(R(τ)/β) · π₀(τ), up to a factor, so that a length has the sum of these over its
trajectories. They are summed backwards, length by length.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.errors import ConfigError

SHARP = 1e-3
"""The β at which only best trajectories count."""
MIXED_IN = 0.01
"""Of the uniform policy, in a reference that would otherwise exclude actions."""


def reference_policy(reachable: Reachable, best_return: Tensor, reference: str) -> Tensor:
    """Return the action probabilities [N, 4] of a reference, in ``reachable.states``.

    uniform: over actions. entropy: 1, a measure and no policy, so that the entropy of trajectories is rewarded, which
    differs from uniform by a constant for each timestep. balanced: each length with the same probability, and uniform
    over the trajectories of a length. best: the same, over those that collect m(l); elsewhere it goes on with the best
    that is left, or is uniform where the chance of the state is too small for a number of 64 bits.
    """
    if reference in ("uniform", "entropy"):
        return torch.full((len(reachable), NUM_ACTIONS), 1.0 if reference == "entropy" else 1 / NUM_ACTIONS).double()
    worth = best_return.double() if reference == "best" else torch.zeros_like(best_return).double()
    price = (worth > 0) / (SHARP * worth.clamp_min(1e-9))
    _, tables = trajectory_sums(reachable, price, torch.zeros(len(reachable), NUM_ACTIONS))
    lengths = reachable.lengths > 0
    table = length_mixture(reachable, lengths / lengths.sum(-1, keepdim=True).double(), tables)
    return (1 - MIXED_IN) * table + MIXED_IN / NUM_ACTIONS


def trajectory_sums(reachable: Reachable, price: Tensor, log_reference: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the logarithm of the sum over the trajectories of each length [B, K], and for each column of lengths the
    policy [N, 4] that takes them in these proportions.

    A coin counts ``price`` [B, K] in the exponent.
    """
    if reachable.mdp.any_luck or reachable.mdp.any_free_bumps:
        raise ConfigError(
            "objective.reference: trajectories are counted in levels without luck and without free bumps only; "
            "expected uniform or entropy, or clock=steps"
        )
    first = int(reachable.mdp.level_of(reachable.layers[0].spot[0]))
    following = torch.zeros(0, reachable.lengths.shape[1], dtype=torch.float64)
    policies: list[Tensor] = []
    own = log_reference.double().split([len(layer.spot) for layer in reachable.layers])
    for layer, each in zip(reversed(reachable.layers), reversed(own), strict=True):
        levels = layer.next_ends - first
        ends = torch.where(reachable.lengths[levels] == layer.tick + 1, 0.0, -torch.inf).double()
        values = torch.cat((following, ends))
        # With chance planes shown, an outcome of chance 0 repeats the first.
        after = values[layer.target[..., 0]]  # [n, 4, K]
        coin = layer.coin[..., :1].double() * price[reachable.mdp.level_of(layer.spot) - first].unsqueeze(1)
        along = after + coin + each.unsqueeze(-1)
        following = along.logsumexp(1)
        policies.insert(0, (along - torch.where(following.isfinite(), following, 0).unsqueeze(1)).exp())
    tables = torch.cat(policies).unbind(-1)
    return following, list(tables)


def length_mixture(reachable: Reachable, weight: Tensor, tables: list[Tensor]) -> Tensor:
    """Return the policy [N, 4] of which each trajectory is as likely as if ``tables[l]`` were drawn with weight l."""
    level = reachable.mdp.level_of(reachable.states.spot)
    level = level - level[0]
    joint = torch.zeros_like(tables[0])
    for column, table in enumerate(tables):
        joint += (weight[level, column] * reachable.visits(table)).unsqueeze(-1) * table
    total = joint.sum(-1, keepdim=True)
    return torch.where(total > 0, joint / total.clamp_min(torch.finfo(joint.dtype).tiny), 1 / NUM_ACTIONS)
