"""Agents that remember earlier mini-episodes: a choice between two lengths, each of which offers its m.

Such an agent is a probability of the longer length for every memory of the meta-episode so far. Memory is the
difference d = (earlier choices of the longer length) − (those of the shorter): the discount of a mini-episode depends
on nothing else, as λ^(N − (i−1)/2) is λ^(d/2) for the longer length and λ^(−d/2) for the shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

LENGTHS = 2


@dataclass(frozen=True)
class MemoryMeasures:
    """What an agent with memory does over a meta-episode."""

    marginal: float
    """The entropy of a mini-episode's length, in bits, averaged over mini-episodes: what an observer sees who does not
    know the earlier lengths."""
    conditional: float
    """The same entropy given the agent's memory: what is left to chance when the agent chooses."""
    predictable: float
    """How often the likelier length, given the memory, is the one chosen."""
    value: float
    """The expected return of the meta-episode ÷ the number of mini-episodes."""


def memory_distribution(probability: Tensor, episodes: int) -> Tensor:
    """Return the probability [E, 2E − 1] of each difference d = 1 − E … E − 1 before each mini-episode.

    ``probability`` [2E − 1] is that of the longer length, given d.
    """
    now = torch.zeros_like(probability)
    now[episodes - 1] = 1
    found = [now]
    for _ in range(episodes - 1):
        longer, shorter = now * probability, now * (1 - probability)
        now = torch.cat((shorter[1:], shorter.new_zeros(1))) + torch.cat((longer.new_zeros(1), longer[:-1]))
        found.append(now)
    return torch.stack(found)


def differences(episodes: int) -> Tensor:
    """Return every difference d [2E − 1]."""
    return torch.arange(1 - episodes, episodes, dtype=torch.float64)


def rewards(episodes: int, lam: float) -> Tensor:
    """Return the reward [2, 2E − 1] of the shorter and of the longer length, given d."""
    d = differences(episodes)
    return torch.stack((lam ** (-d / 2), lam ** (d / 2)))


def length_probabilities(probability: Tensor) -> Tensor:
    """Return the probability of both lengths [2, …] from that of the longer."""
    return torch.stack((1 - probability, probability))


def binary_entropy(probability: Tensor) -> Tensor:
    """Return the entropy in bits of a choice between two."""
    p = length_probabilities(probability)
    return -torch.special.xlogy(p, p).sum(0) / torch.tensor(2.0, dtype=p.dtype).log()


def measure(probability: Tensor, episodes: int, lam: float) -> MemoryMeasures:
    """Return what becomes of the probability [2E − 1] of the longer length given d, exactly."""
    visits = memory_distribution(probability, episodes)
    marginal = binary_entropy((visits * probability).sum(-1)).mean()
    conditional = (visits * binary_entropy(probability)).sum(-1).mean()
    likelier = (visits * length_probabilities(probability).amax(0)).sum(-1).mean()
    value = (visits * (length_probabilities(probability) * rewards(episodes, lam)).sum(0)).sum() / episodes
    return MemoryMeasures(*(each.item() for each in (marginal, conditional, likelier, value)))


@cache
def best_with_memory(episodes: int, lam: float) -> tuple[float, int, int]:
    """Return the largest return of a meta-episode, and how often each length is chosen to get it, the more often first.

    A dynamic programme over the counts, from the last mini-episode to the first.
    """
    value: list[tuple[float, int]] = [(0.0, count) for count in range(episodes + 1)]
    for played in range(episodes - 1, -1, -1):
        before = []
        for count in range(played + 1):  # of one length; the other was chosen in the rest
            difference = count - (played - count)
            one = (lam ** (difference / 2) + value[count + 1][0], value[count + 1][1])
            other = (lam ** (-difference / 2) + value[count][0], value[count][1])
            before.append(max(one, other))
        value = before
    most = max(value[0][1], episodes - value[0][1])
    return value[0][0], most, episodes - most


def alternating(episodes: int, lam: float) -> float:
    """Return the return of a meta-episode in which the lengths take turns."""
    return (episodes + 1) // 2 + (episodes // 2) * lam**-0.5
