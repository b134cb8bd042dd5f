"""What a policy does, exactly: the probability of every trajectory-length and the coins collected in each.

A level set is unrolled once into its reachable states; then, for any action probabilities on them, two
numbers flow forward through the layers: the probability of being in a state, and that probability times
the discounted coins collected on the way. Where they arrive at an end they are what the metrics need. All
levels go at once, and everything is differentiable in the probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from envs.dynamics.mdp import Mdp
from envs.exact.layers import Ends, Layer, walk
from envs.exact.solver import check_gamma


@dataclass(frozen=True)
class States:
    """N states that a policy can be asked about."""

    spot: Tensor
    taken: Tensor
    time_left: Tensor

    def __len__(self) -> int:
        return len(self.spot)

    def __getitem__(self, index: Tensor | slice) -> States:
        return States(self.spot[index], self.taken[index], self.time_left[index])


@dataclass(frozen=True)
class Lengths:
    """What a policy does in each level; columns are the lengths of `Reachable.lengths`."""

    probability: Tensor
    """[B, K] P(L = l)."""
    coins: Tensor
    """[B, K] E[C | L = l], the γ-discounted coins given the length; 0 where P(L = l) is 0."""


@dataclass(frozen=True)
class Arrivals:
    """How likely a policy is to come to the ends of a length, and what it has then: linear, so that the mean over
    policies that are chosen among at random is that of the mixture."""

    probability: Tensor
    """[B, K] P(L = l)."""
    coins: Tensor
    """[B, K] P(L = l) · E[C | L = l]."""

    def lengths(self) -> Lengths:
        possible = self.probability > 0
        coins = torch.where(possible, self.coins, 0) / torch.where(possible, self.probability, 1)
        return Lengths(self.probability, coins)


def mixture(found: Sequence[Arrivals]) -> Arrivals:
    """Of these, all equally likely."""
    probability = torch.stack([each.probability for each in found]).mean(0)
    return Arrivals(probability, torch.stack([each.coins for each in found]).mean(0))


class _Flow(NamedTuple):
    """What happens in one layer."""

    layer: Layer
    arrived: Tensor
    """[n] the probability of being in each of its states."""
    chosen: Tensor
    """[n, 4] the probability of each action there, given that it takes time."""
    along: Tensor
    """[n, 4] the two multiplied: what leaves along each action."""
    arriving: Tensor
    """[next_size] what comes of it to the states and ends of the next layer."""


class Reachable:
    """The reachable states of a level set, or of some levels of it, unrolled: what exact evaluation runs on.

    ``states`` are all of them, layer by layer. :meth:`distinct` gives those that a policy can tell apart.
    """

    def __init__(self, mdp: Mdp, levels: range | None = None) -> None:
        levels = range(mdp.num_levels) if levels is None else levels
        self.mdp, self.num_levels = mdp, len(levels)
        self.layers: list[Layer] = list(walk(mdp, levels))
        self._ends = Ends(((layer.next_ends - levels.start, layer.tick + 1) for layer in self.layers), self.num_levels)
        self.lengths = self._ends.lengths
        """[B, K] trajectory-lengths, shortest first, padded with 0."""
        self.num_lengths = self._ends.num_lengths
        """[B]"""
        self.states = States(
            torch.cat([layer.spot for layer in self.layers]),
            torch.cat([layer.taken for layer in self.layers]),
            torch.cat([layer.time_left for layer in self.layers]),
        )

    def __len__(self) -> int:
        return len(self.states)

    def distinct(self, *, see_time: bool) -> tuple[States, Tensor]:
        """The states that a policy tells apart, and for each reachable state its index among them.

        Without the time (the paper's observation) a state is what stands on the map: the agent, the
        coins and buttons left.
        """
        if see_time and not self.mdp.any_chance:
            return self.states, torch.arange(len(self), device=self.mdp.device)
        key = self.states.spot
        if see_time:
            key = key * (self.mdp.max_time + 1) + self.states.time_left
        unique, index = torch.unique((key << self.mdp.num_objects) | self.states.taken, return_inverse=True)
        one_of_each = torch.empty_like(unique).scatter_(0, index, torch.arange(len(index), device=index.device))
        return self.states[one_of_each], index

    def propagate(self, probabilities: Tensor, gamma: float = 1.0) -> Lengths:
        """Exact lengths and coins of the policy with these action probabilities [N, 4] in ``states``.

        On a clock that counts moves, bumps are free, so what counts is the choice among the moves. A
        policy that only bumps never ends: what it does so with is missing from P(L = l).
        """
        return self.arrivals(probabilities, gamma).lengths()

    def arrivals(self, probabilities: Tensor, gamma: float = 1.0) -> Arrivals:
        """As `propagate`, without the division by P(L = l), whose derivatives have no bound."""
        check_gamma(gamma)
        gathered = probabilities.new_zeros(self.num_levels)
        ends: list[Tensor] = []
        end_coins: list[Tensor] = []
        for layer, _, chosen, along, arriving in self._flow_of(probabilities):
            gain = gathered.unsqueeze(-1) * chosen + along * (gamma**layer.tick * layer.coin).to(along.dtype)
            gathered = _arrive(layer, gain)
            ends.append(arriving[layer.next_states :])
            end_coins.append(gathered[layer.next_states :])
            gathered = gathered[: layer.next_states]
        return Arrivals(self._ends.table(torch.cat(ends)), self._ends.table(torch.cat(end_coins)))

    def visits(self, probabilities: Tensor) -> Tensor:
        """[N] the probability that a mini-episode comes to each of ``states``, for [N, 4] as in `propagate`."""
        return torch.cat([arrived for _, arrived, *_ in self._flow_of(probabilities)])

    @torch.no_grad()
    def explore(self, policy: Callable[[States], Tensor], rarely: float = 0.0) -> tuple[Tensor, Tensor]:
        """Where a policy comes to with more than this probability: [V] indices into ``states``, and [V, 4] its logits.

        It is asked in these states alone; what it does elsewhere is taken to be uniform.
        """
        visited, asked = [], []

        def act(first: int, arrived: Tensor) -> Tensor:
            there = (arrived > rarely).nonzero().squeeze(-1)
            logits = policy(self.states[first + there])
            visited.append(first + there)
            asked.append(logits)
            uniform = logits.new_full((len(arrived), logits.shape[-1]), 1 / logits.shape[-1])
            return uniform.index_put((there,), logits.softmax(-1))

        for _ in self._flow(torch.ones(self.num_levels, device=self.mdp.device), act):
            pass
        return torch.cat(visited), torch.cat(asked)

    def _flow_of(self, probabilities: Tensor) -> Iterator[_Flow]:
        """The flow of a policy with these action probabilities [N, 4]."""
        if probabilities.shape != (len(self), 4):
            raise ValueError(f"probabilities of shape {tuple(probabilities.shape)}; expected ({len(self)}, 4)")
        start = probabilities.new_ones(self.num_levels)
        return self._flow(start, lambda first, arrived: probabilities[first : first + len(arrived)])

    def _flow(self, arrived: Tensor, act: Callable[[int, Tensor], Tensor]) -> Iterator[_Flow]:
        """The probability on its way forward, layer by layer.

        ``act`` is given the first state of a layer and the probability of being in each of its n states, and returns
        the action probabilities there [n, 4].
        """
        first = 0
        for layer in self.layers:
            chosen = _among_moves(act(first, arrived), layer.moving)
            first += len(layer.spot)
            along = arrived.unsqueeze(-1) * chosen
            arriving = _arrive(layer, along)
            yield _Flow(layer, arrived, chosen, along, arriving)
            arrived = arriving[: layer.next_states]

    def evaluate(
        self,
        policy: Callable[[States], Tensor],
        gamma: float = 1.0,
        *,
        see_time: bool = True,
        states_at_once: int = 65_536,
    ) -> Lengths:
        """Exact lengths and coins of a policy: a function from states to action probabilities [n, 4]."""
        states, index = self.distinct(see_time=see_time)
        parts = [policy(states[at : at + states_at_once]) for at in range(0, len(states), states_at_once)]
        return self.propagate(torch.cat(parts)[index], gamma)


def uniform_policy(states: States) -> Tensor:
    """Every action with probability 1/4."""
    return torch.full((len(states), 4), 0.25, dtype=torch.float64, device=states.spot.device)


def _among_moves(probabilities: Tensor, moving: Tensor | None) -> Tensor:
    if moving is None:
        return probabilities
    moves = torch.where(moving, probabilities, 0)
    total = moves.sum(-1, keepdim=True)
    # Where no bump is free the probabilities stay as they are, whatever they sum to.
    total = torch.where(moving.all(-1, keepdim=True) | (total == 0), 1, total)
    return moves / total


def _arrive(layer: Layer, flow: Tensor) -> Tensor:
    """Add up what flows [n, 4] along each action into the states and ends of the next layer."""
    if layer.chance is not None:
        flow = flow.unsqueeze(-1) * layer.chance.to(flow.dtype)
    return flow.new_zeros(layer.next_size).index_add(0, layer.target.reshape(-1), flow.reshape(-1))
