"""Exact propagation of a policy: the probability of every trajectory-length and the coins collected in each.

A level set is unrolled once into its reachable states. For any action probabilities on these states, two numbers flow
forward through the layers: the probability of being in a state, and this probability times the discounted coins so far.
The metrics follow from their values at the ends. All levels are computed together, and the results are differentiable
in the action probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.layers import LevelEnds, StateLayer, walk
from drest_torch.envs.exact.solver import check_gamma


@dataclass(frozen=True)
class States:
    """N states of a level set."""

    spot: Tensor
    taken: Tensor
    time_left: Tensor

    def __len__(self) -> int:
        return len(self.spot)

    def __getitem__(self, index: Tensor | slice) -> States:
        return States(self.spot[index], self.taken[index], self.time_left[index])


@dataclass(frozen=True)
class Lengths:
    """The trajectory-lengths and coins of a policy in each level, with the columns of `Reachable.lengths`."""

    probability: Tensor
    """[B, K] P(L = l)."""
    coins: Tensor
    """[B, K] E[C | L = l], the γ-discounted coins given the length; 0 where P(L = l) is 0."""


@dataclass(frozen=True)
class Arrivals:
    """The probability that a policy reaches each end, and its coins there times that probability.

    Both are linear in the policy: the arrivals of a mixture of policies are the mean of their arrivals.
    """

    probability: Tensor
    """[B, K] P(L = l)."""
    coins: Tensor
    """[B, K] P(L = l) · E[C | L = l]."""

    def lengths(self) -> Lengths:
        """Return the probabilities of the lengths, and the mean coins given each length."""
        possible = self.probability > 0
        coins = torch.where(possible, self.coins, 0) / torch.where(possible, self.probability, 1)
        return Lengths(self.probability, coins)


def mixture(policies: Sequence[Arrivals]) -> Arrivals:
    """Return the arrivals of a uniform mixture of these policies."""
    probability = torch.stack([policy.probability for policy in policies]).mean(0)
    return Arrivals(probability, torch.stack([policy.coins for policy in policies]).mean(0))


class Flow(NamedTuple):
    """The probabilities of one layer."""

    layer: StateLayer
    arrived: Tensor
    """[n] the probability of being in each state of the layer."""
    chosen: Tensor
    """[n, 4] the probability of each action, given that it takes time."""
    along: Tensor
    """[n, 4] the probability of leaving each state by each action: the product of the two."""
    arriving: Tensor
    """[next_size] the probability of being in each state or end of the next layer."""


class Reachable:
    """The reachable states of a level set, or of a range of its levels, unrolled for exact evaluation.

    ``states`` holds all of them, layer by layer. :meth:`distinct` merges the states that a policy cannot tell apart.
    """

    def __init__(self, mdp: Mdp, levels: range | None = None) -> None:
        levels = range(mdp.num_levels) if levels is None else levels
        self.mdp, self.num_levels = mdp, len(levels)
        self.layers: list[StateLayer] = list(walk(mdp, levels))
        level = torch.cat([layer.next_ends for layer in self.layers]) - levels.start
        self.ends = LevelEnds(level, torch.cat([layer.next_lengths for layer in self.layers]), len(levels))
        self.lengths = self.ends.lengths
        """[B, K] trajectory-lengths, shortest first, padded with 0."""
        self.num_lengths = self.ends.num_lengths
        """[B] k"""
        self.states = States(
            torch.cat([layer.spot for layer in self.layers]),
            torch.cat([layer.taken for layer in self.layers]),
            torch.cat([layer.time_left for layer in self.layers]),
        )

    def __len__(self) -> int:
        return len(self.states)

    def distinct(self, *, see_time: bool) -> tuple[States, Tensor]:
        """Return the states that a policy can tell apart, and the index of each reachable state among them.

        Without the time (the paper's observation) states are equal if they have the same agent's cell and the same
        remaining coins and buttons.
        """
        if see_time and not self.mdp.any_chance:
            return self.states, torch.arange(len(self), device=self.mdp.device)
        time_left = self.states.time_left if see_time else torch.zeros_like(self.states.time_left)
        number = self.mdp.states.number(self.states.spot, self.states.taken, time_left)
        unique, index = torch.unique(number, return_inverse=True)
        representative = torch.empty_like(unique).scatter_(0, index, torch.arange(len(index), device=index.device))
        return self.states[representative], index

    def propagate(self, probabilities: Tensor, gamma: float = 1.0) -> Lengths:
        """Return the exact lengths and coins of the policy with these action probabilities [N, 4] in ``states``.

        On a clock that counts moves bumps are free, so only the choice among the moves matters. A policy that only
        bumps in some state never ends from there, and this probability is missing from P(L = l).
        """
        return self.arrivals(probabilities, gamma).lengths()

    def arrivals(self, probabilities: Tensor, gamma: float = 1.0, *, without: Tensor | None = None) -> Arrivals:
        """Return the result of `propagate` without the division by P(L = l), whose derivatives are unbounded.

        Mini-episodes with an action of ``without`` [N, 4] are left out.
        """
        check_gamma(gamma)
        gathered = probabilities.new_zeros(self.num_levels)
        ends: list[Tensor] = []
        end_coins: list[Tensor] = []
        for layer, _, chosen, along, arriving in self.flow(probabilities, without):
            coin = (gamma**layer.tick * layer.coin).to(along.dtype)
            gain = (gathered.unsqueeze(-1) * chosen).unsqueeze(-1) + along.unsqueeze(-1) * coin
            gathered = _arrive(layer, gain)
            ends.append(arriving[layer.next_states :])
            end_coins.append(gathered[layer.next_states :])
            gathered = gathered[: layer.next_states]
        return Arrivals(self.ends.table(torch.cat(ends)), self.ends.table(torch.cat(end_coins)))

    def visits(self, probabilities: Tensor) -> Tensor:
        """Return the probability [N] of reaching each of ``states``, for action probabilities [N, 4]."""
        return torch.cat([arrived for _, arrived, *_ in self.flow(probabilities)])

    def steps(self, probabilities: Tensor) -> Tensor:
        """Return the probability [N, 4] of leaving each of ``states`` by each action, for action probabilities."""
        return torch.cat([flow.along for flow in self.flow(probabilities)])

    @torch.no_grad()
    def explore(self, policy: Callable[[States], Tensor], rarely: float = 0.0) -> tuple[Tensor, Tensor]:
        """Return the states that a policy reaches with a probability above ``rarely``, and its logits there.

        The states are indices into ``states`` [V], the logits are [V, 4]. The policy is evaluated only in these states;
        elsewhere its actions are assumed to be uniform.
        """
        visited, logits_of = [], []

        def act(first: int, arrived: Tensor) -> Tensor:
            likely = (arrived > rarely).nonzero().squeeze(-1)
            logits = policy(self.states[first + likely])
            visited.append(first + likely)
            logits_of.append(logits)
            uniform = logits.new_full((len(arrived), logits.shape[-1]), 1 / logits.shape[-1])
            return uniform.index_put((likely,), logits.softmax(-1))

        for _ in self._flow(torch.ones(self.num_levels, device=self.mdp.device), act):
            pass
        return torch.cat(visited), torch.cat(logits_of)

    def flow(self, probabilities: Tensor, without: Tensor | None = None) -> Iterator[Flow]:
        """Yield the flow of a policy with these action probabilities [N, 4], layer by layer."""
        if probabilities.shape != (len(self), 4):
            raise ValueError(f"probabilities of shape {tuple(probabilities.shape)}; expected ({len(self)}, 4)")
        start = probabilities.new_ones(self.num_levels)
        return self._flow(start, lambda first, arrived: probabilities[first : first + len(arrived)], without)

    def _flow(
        self, arrived: Tensor, act: Callable[[int, Tensor], Tensor], without: Tensor | None = None
    ) -> Iterator[Flow]:
        """Yield the flow of probability, layer by layer.

        ``act`` gets the index of the first state of a layer and the probability of being in each of its n states. It
        returns the action probabilities in these states [n, 4].
        """
        first = 0
        for layer in self.layers:
            chosen = _among_moves(act(first, arrived), layer.moving)
            if without is not None:
                chosen = torch.where(without[first : first + len(arrived)], 0, chosen)
            first += len(layer.spot)
            along = arrived.unsqueeze(-1) * chosen
            arriving = _arrive(layer, along)
            yield Flow(layer, arrived, chosen, along, arriving)
            arrived = arriving[: layer.next_states]

    def evaluate(self, policy: Callable[[States], Tensor], gamma: float = 1.0) -> Lengths:
        """Return the exact lengths and coins of a policy, a function from states to action probabilities [n, 4]."""
        return self.propagate(policy(self.states), gamma)


def uniform_policy(states: States) -> Tensor:
    """Return probability 1/4 for every action."""
    return torch.full((len(states), 4), 0.25, dtype=torch.float64, device=states.spot.device)


def _among_moves(probabilities: Tensor, moving: Tensor | None) -> Tensor:
    """Return the probability of each action given that it takes time."""
    if moving is None:
        return probabilities
    moves = torch.where(moving, probabilities, 0)
    total = moves.sum(-1, keepdim=True)
    # Without free bumps the probabilities stay as they are, even if their sum is not 1.
    total = torch.where(moving.all(-1, keepdim=True) | (total == 0), 1, total)
    return moves / total


def _arrive(layer: StateLayer, flow: Tensor) -> Tensor:
    """Sum the flow of each action [n, 4], or of each outcome [n, 4, J], into the next states and ends."""
    if flow.ndim == 2:
        flow = flow.unsqueeze(-1)
    if layer.chance is not None:
        flow = flow * layer.chance.to(flow.dtype)
    return flow.new_zeros(layer.next_size).index_add(0, layer.target.reshape(-1), flow.reshape(-1))
