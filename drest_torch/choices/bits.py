"""Partial observation of a private bit: redrawn at random, shown at the first tick only, or hidden at random.

The observation of the bit is then a Markov chain. Probabilities and coins are propagated exactly on the product of the
states and this chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.envs.exact.layers import StateLayer
from drest_torch.envs.exact.propagator import Arrivals, Reachable
from drest_torch.metrics import neutrality

CLEAR, SET, HIDDEN = 0.0, 1.0, 0.5
"""Values that a network observes; the middle value stands for a hidden bit."""


@dataclass(frozen=True)
class BitChannel:
    """Observation of one private bit by a policy, as a Markov chain with C states."""

    symbols: tuple[float, ...]
    """The S values that the policy can observe."""
    shows: tuple[int, ...]
    """[C] the symbol of each state of the chain"""
    start: tuple[float, ...]
    """[C] the initial distribution"""
    onward: tuple[tuple[float, ...], ...]
    """[C][C] the transition matrix: from the row to the column"""

    def settings(self) -> Tensor:
        """Return [S, 1] the values of the bit for which the policy's action probabilities are needed."""
        return torch.tensor(self.symbols).unsqueeze(-1)

    def arrivals(self, reachable: Reachable, probabilities: Tensor, gamma: float = 1.0) -> Arrivals:
        """Return the arrivals of a policy with action probabilities [S, N, 4] given each symbol."""
        start = torch.tensor(self.start, dtype=probabilities.dtype)
        onward = torch.tensor(self.onward, dtype=probabilities.dtype)
        arrived = start.unsqueeze(-1).expand(-1, reachable.num_levels)  # [C, n]
        gathered = torch.zeros_like(arrived)
        ends, coins = [], []
        for flows in zip(*(reachable.flow(table) for table in probabilities), strict=True):
            layer = flows[0].layer
            chosen = torch.stack([flows[symbol].chosen for symbol in self.shows])
            along = (arrived.unsqueeze(-1) * chosen).unsqueeze(-1)
            coin = (gamma**layer.tick * layer.coin).to(along.dtype)
            arriving = _into(layer, along.expand(*along.shape[:-1], coin.shape[-1]))
            gaining = _into(layer, (gathered.unsqueeze(-1) * chosen).unsqueeze(-1) + along * coin)
            ends.append(arriving[:, layer.next_states :].sum(0))
            coins.append(gaining[:, layer.next_states :].sum(0))
            arrived, gathered = (onward.T @ flow[:, : layer.next_states] for flow in (arriving, gaining))
        return Arrivals(reachable.ends.table(torch.cat(ends)), reachable.ends.table(torch.cat(coins)))

    def neutrality_given(self, reachable: Reachable, tables: Tensor, paths: int, rng: torch.Generator) -> Tensor:
        """Return the mean of H(P(L | observations of the bit)) in each level [B], over sampled paths of the chain.

        For a chain that keeps its state, each state is one path, and the result is exact.
        """
        layers = tables.split([len(layer.spot) for layer in reachable.layers], 1)
        sampled = self._paths(len(layers), paths, rng)
        distinct, count = sampled.unique(dim=0, return_counts=True)
        conditional = torch.zeros(reachable.num_levels, dtype=tables.dtype)
        if self.onward == _identity(len(self.start)):  # exact: a path is as likely as its first state
            count = torch.tensor([self.start[int(path[0])] for path in distinct])
        for path, weight in zip(distinct, count / count.sum(), strict=True):
            rows = [layer[self.shows[int(state)]] for state, layer in zip(path, layers, strict=True)]
            conditional += weight * neutrality(reachable.arrivals(torch.cat(rows)).probability)
        return conditional

    def _paths(self, ticks: int, paths: int, rng: torch.Generator) -> Tensor:
        """Sample paths of the chain [paths, ticks]."""
        state = torch.multinomial(torch.tensor(self.start), paths, replacement=True, generator=rng)
        states = [state]
        for _ in range(ticks - 1):
            state = torch.multinomial(torch.tensor(self.onward)[state], 1, generator=rng).squeeze(-1)
            states.append(state)
        return torch.stack(states, -1)


def _identity(states: int) -> tuple[tuple[float, ...], ...]:
    """Return the transition matrix of a chain that keeps its state."""
    return tuple(map(tuple, torch.eye(states).tolist()))


def _into(layer: StateLayer, flow: Tensor) -> Tensor:
    """Sum the flow [C, n, 4, J] along each action and outcome into the next states and ends [C, m]."""
    if layer.chance is not None:
        flow = flow * layer.chance.to(flow.dtype)
    return flow.new_zeros(len(flow), layer.next_size).index_add(1, layer.target.reshape(-1), flow.flatten(1))


def always() -> BitChannel:
    """Return the default: the bit is drawn at the start of a mini-episode and shown in every tick."""
    return BitChannel((CLEAR, SET), (0, 1), (0.5, 0.5), _identity(2))


def redrawn(chance: float) -> BitChannel:
    """Return a bit that is redrawn with this probability at each tick."""
    other = chance / 2
    return BitChannel((CLEAR, SET), (0, 1), (0.5, 0.5), ((1 - other, other), (other, 1 - other)))


def first_tick_only() -> BitChannel:
    """Return a bit that is shown at the first tick only."""
    return BitChannel((CLEAR, SET, HIDDEN), (0, 1, 2), (0.5, 0.5, 0.0), ((0.0, 0.0, 1.0),) * 3)


def hidden_at_random(chance: float) -> BitChannel:
    """Return a constant bit that is hidden with this probability at each tick, independently."""
    visible, hidden = (1 - chance) / 2, chance / 2
    row = [(1 - chance, 0.0, chance, 0.0), (0.0, 1 - chance, 0.0, chance)]
    return BitChannel((CLEAR, SET, HIDDEN), (0, 1, 2, 2), (visible, visible, hidden, hidden), (*row, *row))


def never() -> BitChannel:
    """Return the channel of a policy without a private bit."""
    return BitChannel((HIDDEN,), (0,), (1.0,), _identity(1))
