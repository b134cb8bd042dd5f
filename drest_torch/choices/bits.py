"""A private bit that is not shown all the time: drawn again now and then, shown at first only, or hidden by chance.

What the policy observes of its bit is then a Markov chain. Probabilities and coins are propagated on the pairs of a
state and a link of this chain, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.envs.exact.layers import StateLayer
from drest_torch.envs.exact.propagator import Arrivals, Reachable
from drest_torch.metrics import neutrality

ZERO, ONE, HIDDEN = 0.0, 1.0, 0.5
"""What a network observes; between the two bits it sees neither."""


@dataclass(frozen=True)
class BitChannel:
    """What a policy observes of one private bit, as a Markov chain with C links."""

    symbols: tuple[float, ...]
    """The S values that the policy can observe."""
    shows: tuple[int, ...]
    """[C] the symbol of each link"""
    start: tuple[float, ...]
    """[C] the probability of each link at the first tick"""
    onward: tuple[tuple[float, ...], ...]
    """[C][C] the probability of each link (column) at the next tick, given that of this tick (row)"""

    def settings(self) -> Tensor:
        """Return [S, 1] the values of the bit under which the policy has to be asked."""
        return torch.tensor(self.symbols).unsqueeze(-1)

    def arrivals(self, reachable: Reachable, probabilities: Tensor, gamma: float = 1.0) -> Arrivals:
        """Return what a policy comes to whose action probabilities are [S, N, 4] given each symbol."""
        start, onward = (torch.tensor(each, dtype=probabilities.dtype) for each in (self.start, self.onward))
        arrived = start.unsqueeze(-1).expand(-1, reachable.num_levels)  # [C, n]
        gathered = torch.zeros_like(arrived)
        ends, coins = [], []
        for each in zip(*(reachable.flow(table) for table in probabilities), strict=True):
            layer, chosen = each[0].layer, torch.stack([each[symbol].chosen for symbol in self.shows])
            along = (arrived.unsqueeze(-1) * chosen).unsqueeze(-1)
            coin = (gamma**layer.tick * layer.coin).to(along.dtype)
            arriving = _into(layer, along.expand(*along.shape[:-1], coin.shape[-1]))
            gaining = _into(layer, (gathered.unsqueeze(-1) * chosen).unsqueeze(-1) + along * coin)
            ends.append(arriving[:, layer.next_states :].sum(0))
            coins.append(gaining[:, layer.next_states :].sum(0))
            arrived, gathered = (onward.T @ flow[:, : layer.next_states] for flow in (arriving, gaining))
        return Arrivals(reachable.ends.table(torch.cat(ends)), reachable.ends.table(torch.cat(coins)))

    def neutrality_given(self, reachable: Reachable, tables: Tensor, paths: int, rng: torch.Generator) -> Tensor:
        """Return the mean of H(P(L | everything observed of the bit)) in each level [B], over sampled paths.

        If the bit stays as it is, each of its values is one path, and this is exact.
        """
        layers = tables.split([len(layer.spot) for layer in reachable.layers], 1)
        sampled = self._paths(len(layers), paths, rng)
        distinct, count = sampled.unique(dim=0, return_counts=True)
        own = torch.zeros(reachable.num_levels, dtype=tables.dtype)
        if self.onward == _stays(len(self.start)):  # exact: the paths are as likely as their first links
            count = torch.tensor([self.start[int(path[0])] for path in distinct])
        for path, weight in zip(distinct, count / count.sum(), strict=True):
            rows = [layer[self.shows[int(link)]] for link, layer in zip(path, layers, strict=True)]
            own += weight * neutrality(reachable.arrivals(torch.cat(rows)).probability)
        return own

    def _paths(self, ticks: int, paths: int, rng: torch.Generator) -> Tensor:
        link = torch.multinomial(torch.tensor(self.start), paths, replacement=True, generator=rng)
        links = [link]
        for _ in range(ticks - 1):
            link = torch.multinomial(torch.tensor(self.onward)[link], 1, generator=rng).squeeze(-1)
            links.append(link)
        return torch.stack(links, -1)


def _stays(links: int) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(i == j) for j in range(links)) for i in range(links))


def _into(layer: StateLayer, flow: Tensor) -> Tensor:
    """Sum the flow [C, n, 4, J] along each action and outcome into the next states and ends [C, m]."""
    if layer.chance is not None:
        flow = flow * layer.chance.to(flow.dtype)
    return flow.new_zeros(len(flow), layer.next_size).index_add(1, layer.target.reshape(-1), flow.flatten(1))


def always() -> BitChannel:
    """Return the bit as it is: drawn at the start of a mini-episode, and shown in every tick."""
    return BitChannel((ZERO, ONE), (0, 1), (0.5, 0.5), _stays(2))


def redrawn(chance: float) -> BitChannel:
    """Return a bit that is drawn again with this probability at each tick."""
    other = chance / 2
    return BitChannel((ZERO, ONE), (0, 1), (0.5, 0.5), ((1 - other, other), (other, 1 - other)))


def first_tick_only() -> BitChannel:
    """Return a bit that is shown at the first tick only."""
    return BitChannel((ZERO, ONE, HIDDEN), (0, 1, 2), (0.5, 0.5, 0.0), ((0.0, 0.0, 1.0),) * 3)


def hidden_at_random(chance: float) -> BitChannel:
    """Return a bit that stays, and is hidden with this probability at each tick, independently."""
    shown, hidden = (1 - chance) / 2, chance / 2
    row = [(1 - chance, 0.0, chance, 0.0), (0.0, 1 - chance, 0.0, chance)]
    return BitChannel((ZERO, ONE, HIDDEN), (0, 1, 2, 2), (shown, shown, hidden, hidden), (*row, *row))


def never() -> BitChannel:
    """Return no bit at all: the policy has none, and is asked once."""
    return BitChannel((HIDDEN,), (0,), (1.0,), _stays(1))
