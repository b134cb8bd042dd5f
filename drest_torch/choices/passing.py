"""The probability that a policy enters a cell at all, computed exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.layers import Layer
from drest_torch.envs.exact.propagator import Reachable


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
        chosen = probabilities[first : first + len(layer.spot)]
        if layer.moving is not None:  # a bump on a clock that counts moves is no choice
            moves = torch.where(layer.moving, chosen, 0)
            total = moves.sum(-1, keepdim=True)
            chosen = moves / torch.where(total == 0, 1, total)
        yield Step(layer, first, goto[layer.spot], chosen)
        first += len(layer.spot)


def arrive(layer: Layer, flow: Tensor) -> Tensor:
    """Sum the flow along each action [n, 4] into the states and ends of the next layer."""
    along = flow.unsqueeze(-1) if layer.chance is None else flow.unsqueeze(-1) * layer.chance.to(flow.dtype)
    return flow.new_zeros(layer.next_size).index_add(0, layer.target.reshape(-1), along.reshape(-1))


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
