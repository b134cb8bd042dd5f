"""The mean policy of several policies: in each state, an action has the mean of their probabilities.

Policies can have different networks and observations. Their mean therefore observes states themselves, and computes the
observation of each policy from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from drest_torch.algos.networks.policy import Policy
from drest_torch.algos.networks.spec import MapView
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.dynamics.observations import Observation, make_observation
from drest_torch.evaluation.exact_evaluator import refuse_memory

RECURRENT = "a recurrent policy has no action probabilities by state, so it is not part of a mean policy; leave it out"


class StateObservation:
    """An observation that is the state itself: spot, taken objects and time left."""

    shape: tuple[int, ...] = (3,)
    planes: tuple[str, ...] = ()
    rotated: Tensor | None = None

    def __init__(self, *, see_time: bool, device: torch.device) -> None:
        self.see_time = see_time
        self.scale = torch.ones(self.shape, device=device)

    def __call__(self, spot: Tensor, taken: Tensor, time_left: Tensor) -> Tensor:
        return torch.stack((spot, taken, time_left), -1)


class Member(NamedTuple):
    """A policy, with its observation of a level set that is padded to its map size."""

    policy: Policy
    observe: Observation
    mdp: Mdp


class MeanPolicy(nn.Module):
    """The mean of policies on a level set, as a function of `StateObservation`.

    The private bits of the mean are those of all policies, one after another: each policy draws its own for a
    mini-episode, independently of the others.
    """

    reads_maps = False

    def __init__(self, policies: Sequence[tuple[Policy, MapView]], mdp: Mdp) -> None:
        super().__init__()
        self.mdp = mdp
        self.members = [_member(policy, view, mdp) for policy, view in policies]
        self.private_bits = sum(member.policy.private_bits for member in self.members)
        sees_time = any(member.observe.see_time for member in self.members)
        self.observe = StateObservation(see_time=sees_time, device=mdp.device)
        """The observation of the mean policy."""
        self.builds = [part for member in self.members for part in getattr(member.policy, "builds", ())]
        """The parts of all networks with a cache of weights."""

    def forward(self, states: Tensor, private_bits: Tensor | None = None) -> Tensor:
        """Return the logarithms of the mean action probabilities [n, A] in states [n, 3]."""
        spot, taken, time_left = states.unbind(-1)
        total, first_bit = torch.zeros(()), 0
        for policy, observe, mdp in self.members:
            bits = None
            if private_bits is not None:
                bits = private_bits[:, first_bit : first_bit + policy.private_bits]
            first_bit += policy.private_bits
            observation = observe(moved(spot, self.mdp, mdp), taken, time_left)
            total = total + policy(observation, bits).double().softmax(-1)
        return (total / len(self.members)).log()


def _member(policy: Policy, view: MapView, mdp: Mdp) -> Member:
    """Return a policy with its observation of the levels of ``mdp``."""
    refuse_memory(policy, RECURRENT)
    padded = compile_levels(mdp.levels, mdp.device, at_least=(view.rows, view.columns), features=view.features)
    observe = make_observation(view.observation, padded, view.time_steps, view.planes)
    return Member(policy, observe, padded)


def moved(spot: Tensor, mdp: Mdp, other: Mdp) -> Tensor:
    """Return spots of a level set as spots of the same levels on maps that are padded to another size."""
    if (mdp.height, mdp.width) == (other.height, other.width):
        return spot
    level = mdp.level_of(spot)
    cell = spot - level * mdp.num_cells
    row = torch.div(cell, mdp.width, rounding_mode="floor")
    column = cell - row * mdp.width
    return level * other.num_cells + row * other.width + column
