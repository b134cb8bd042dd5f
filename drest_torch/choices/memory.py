"""Agents with memory of earlier mini-episodes, in a choice between two lengths that each offer their m.

A policy maps the memory of the meta-episode to the probability of the longer length. Memory is the difference d of the
numbers of earlier mini-episodes with the longer and with the shorter length. It is a sufficient statistic of the
discount: λ^(N − (i−1)/2) is λ^(d/2) for the longer length and λ^(−d/2) for the shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

LENGTHS = 2


@dataclass(frozen=True)
class MemoryMeasures:
    """Measures of a policy with memory over a meta-episode."""

    marginal: float
    """The marginal entropy of a mini-episode's length in bits, averaged over mini-episodes."""
    conditional: float
    """The same entropy given the agent's memory."""
    predictable: float
    """The probability of the likelier length, given the memory."""
    value: float
    """The expected return of the meta-episode ÷ the number of mini-episodes."""


def memory_distribution(probability: Tensor, episodes: int) -> Tensor:
    """Return the probability [E, 2E − 1] of each difference d = 1 − E … E − 1 before each mini-episode.

    ``probability`` [2E − 1] is P(longer | d).
    """
    current = torch.zeros_like(probability)
    current[episodes - 1] = 1
    distributions = [current]
    for _ in range(episodes - 1):
        longer, shorter = current * probability, current * (1 - probability)
        current = torch.cat((shorter[1:], shorter.new_zeros(1))) + torch.cat((longer.new_zeros(1), longer[:-1]))
        distributions.append(current)
    return torch.stack(distributions)


def differences(episodes: int) -> Tensor:
    """Return every difference d [2E − 1]."""
    return torch.arange(1 - episodes, episodes, dtype=torch.float64)


def rewards(episodes: int, lam: float) -> Tensor:
    """Return the rewards [2, 2E − 1] of the shorter and of the longer length, given d."""
    d = differences(episodes)
    return torch.stack((lam ** (-d / 2), lam ** (d / 2)))


def length_probabilities(probability: Tensor) -> Tensor:
    """Return the probabilities [2, …] of the shorter and of the longer length."""
    return torch.stack((1 - probability, probability))


def binary_entropy(probability: Tensor) -> Tensor:
    """Return the binary entropy in bits."""
    p = length_probabilities(probability)
    return -torch.special.xlogy(p, p).sum(0) / torch.tensor(2.0, dtype=p.dtype).log()


def measure(probability: Tensor, episodes: int, lam: float) -> MemoryMeasures:
    """Evaluate a policy, P(longer | d) [2E − 1], exactly."""
    visits = memory_distribution(probability, episodes)
    marginal = binary_entropy((visits * probability).sum(-1)).mean()
    conditional = (visits * binary_entropy(probability)).sum(-1).mean()
    likelier = (visits * length_probabilities(probability).amax(0)).sum(-1).mean()
    value = (visits * (length_probabilities(probability) * rewards(episodes, lam)).sum(0)).sum() / episodes
    return MemoryMeasures(marginal.item(), conditional.item(), likelier.item(), value.item())


@cache
def best_with_memory(episodes: int, lam: float) -> tuple[float, int, int]:
    """Return the largest return of a meta-episode, and the counts of the lengths that attain it, larger count first.

    This is dynamic programming over the counts, from the last mini-episode to the first.
    """
    value: list[tuple[float, int]] = [(0.0, count) for count in range(episodes + 1)]
    for played in range(episodes - 1, -1, -1):
        values_before = []
        for count in range(played + 1):  # of the first length
            difference = count - (played - count)
            first = (lam ** (difference / 2) + value[count + 1][0], value[count + 1][1])
            second = (lam ** (-difference / 2) + value[count][0], value[count][1])
            values_before.append(max(first, second))
        value = values_before
    most = max(value[0][1], episodes - value[0][1])
    return value[0][0], most, episodes - most


def alternating(episodes: int, lam: float) -> float:
    """Return the return of a meta-episode in which the lengths alternate."""
    return (episodes + 1) // 2 + (episodes // 2) * lam**-0.5
