"""Reference policies, from sums over the trajectories of each length.

In a world without luck, the policy that maximises reward minus β times the divergence from a reference π₀ gives each
trajectory τ a probability proportional to e^(R(τ)/β) · π₀(τ). The probability of a length is the sum over its
trajectories, computed backwards.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.errors import ConfigError

SHARP = 1e-3
"""A β so small that only the best trajectories count."""
UNIFORM_SHARE = 0.01
"""The share of the uniform policy in a reference that would otherwise exclude actions."""


def reference_policy(reachable: Reachable, best_return: Tensor, reference: str) -> Tensor:
    """Return the action probabilities [N, 4] of a reference, in ``reachable.states``.

    uniform: uniform over actions. entropy: the measure 1, which rewards the entropy of trajectories and differs from
    uniform by a constant for each tick. balanced: uniform over lengths, and over the trajectories of a length.
    best: the same over the trajectories that collect m(l); off these trajectories it takes the best that is left, or is
    uniform if the probability of the state underflows.
    """
    if reference in ("uniform", "entropy"):
        return torch.full((len(reachable), NUM_ACTIONS), 1.0 if reference == "entropy" else 1 / NUM_ACTIONS).double()
    worth = best_return.double() if reference == "best" else torch.zeros_like(best_return).double()
    price = (worth > 0) / (SHARP * worth.clamp_min(1e-9))
    _, tables = trajectory_sums(reachable, price, torch.zeros(len(reachable), NUM_ACTIONS))
    lengths = reachable.lengths > 0
    table = length_mixture(reachable, lengths / lengths.sum(-1, keepdim=True).double(), tables)
    return (1 - UNIFORM_SHARE) * table + UNIFORM_SHARE / NUM_ACTIONS


def trajectory_sums(reachable: Reachable, price: Tensor, log_reference: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the log of the sum over the trajectories of each length [B, K], and a policy [N, 4] for each length.

    The policies take the trajectories of their length in proportion to the terms of the sum. A coin counts ``price``
    [B, K] in the exponent.
    """
    if reachable.mdp.any_luck or reachable.mdp.any_free_bumps:
        raise ConfigError(
            "objective.reference: trajectories are counted in levels without luck and without free bumps only; "
            "expected uniform or entropy, or clock=steps"
        )
    first = int(reachable.mdp.level_of(reachable.layers[0].spot[0]))
    following = torch.zeros(0, reachable.lengths.shape[1], dtype=torch.float64)
    policies: list[Tensor] = []
    log_references = log_reference.double().split([len(layer.spot) for layer in reachable.layers])
    for layer, log_step in zip(reversed(reachable.layers), reversed(log_references), strict=True):
        levels = layer.next_ends - first
        ends = torch.where(reachable.lengths[levels] == layer.tick + 1, 0.0, -torch.inf).double()
        values = torch.cat((following, ends))
        # With chance planes shown, an outcome of chance 0 repeats the first.
        after = values[layer.target[..., 0]]  # [n, 4, K]
        coin = layer.coin[..., :1].double() * price[reachable.mdp.level_of(layer.spot) - first].unsqueeze(1)
        along = after + coin + log_step.unsqueeze(-1)
        following = along.logsumexp(1)
        policies.insert(0, (along - torch.where(following.isfinite(), following, 0).unsqueeze(1)).exp())
    tables = torch.cat(policies).unbind(-1)
    return following, list(tables)


def length_mixture(reachable: Reachable, weight: Tensor, tables: list[Tensor]) -> Tensor:
    """Return the policy [N, 4] with the trajectory distribution of the mixture of ``tables``, with these weights."""
    level = reachable.mdp.level_of(reachable.states.spot)
    level = level - level[0]
    joint = torch.zeros_like(tables[0])
    for column, table in enumerate(tables):
        joint += (weight[level, column] * reachable.visits(table)).unsqueeze(-1) * table
    total = joint.sum(-1, keepdim=True)
    return torch.where(total > 0, joint / total.clamp_min(torch.finfo(joint.dtype).tiny), 1 / NUM_ACTIONS)
