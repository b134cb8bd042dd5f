"""The commitment profile K(t): how much of the choice of a length is still open after t ticks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drest_torch.envs.exact.propagator import Reachable
from drest_torch.metrics import neutrality

NO_CHOICE = 0.01
"""Less than so many bits count as no choice."""


def onward(reachable: Reachable, probabilities: Tensor) -> list[Tensor]:
    """Return [n, K] the probability of each length from each state of each layer on, by backward induction."""
    result: list[Tensor] = []
    following = probabilities.new_zeros(0, reachable.lengths.shape[1])
    for layer, _, chosen, *_ in reversed(list(reachable.flow(probabilities))):
        levels = layer.next_ends - reachable.mdp.level_of(reachable.layers[0].spot[0])
        ends = (reachable.lengths[levels] == layer.tick + 1).to(probabilities.dtype)
        values = torch.cat((following, ends))
        after = values[layer.target]  # [n, 4, J, K]
        after = after.squeeze(-2) if layer.chance is None else (layer.chance.unsqueeze(-1) * after).sum(-2)
        following = (chosen.unsqueeze(-1) * after).sum(-2)
        result.append(following)
    return result[::-1]


def profile(reachable: Reachable, probabilities: Tensor) -> Tensor:
    """Return K(t) [B, T] in bits: the neutrality that is left after t ticks, Σ_s P(s at t) · H(P(L | s)).

    K(0) is the neutrality. K never rises, and is 0 where the mini-episode has ended: its length is then settled.
    """
    first = int(reachable.mdp.level_of(reachable.layers[0].spot[0]))
    ticks = []
    for flow, of_length in zip(reachable.flow(probabilities), onward(reachable, probabilities), strict=True):
        level = reachable.mdp.level_of(flow.layer.spot) - first
        open_bits = probabilities.new_zeros(reachable.num_levels)
        ticks.append(open_bits.index_add(0, level, flow.arrived * neutrality(of_length)))
    return torch.stack(ticks, -1)


def half_open(bits: Sequence[float]) -> int | None:
    """Return the last tick at which more than half of the choice is open; None if less than `NO_CHOICE` ever is."""
    if not bits or bits[0] < NO_CHOICE:
        return None
    return max(tick for tick, left in enumerate(bits) if left > bits[0] / 2)
