"""Tests of policies with memory: the optimal meta-episode, and measures against enumeration."""

import itertools

import numpy as np
import pytest
import torch

from drest_torch.choices import memory

LAM = 0.9


def returns(lengths, lam):
    """Return the return of a meta-episode with these lengths, by the definition of the reward."""
    return sum(lam ** (lengths[:i].count(length) - i / 2) for i, length in enumerate(lengths))


@pytest.mark.parametrize("episodes", [1, 2, 5, 8])
def test_dynamic_programming_finds_the_best_meta_episode(episodes):
    every = {lengths: returns(lengths, LAM) for lengths in itertools.product((0, 1), repeat=episodes)}
    value, most, least = memory.best_with_memory(episodes, LAM)
    best = max(every, key=lambda lengths: every[lengths])
    assert value == pytest.approx(every[best], rel=1e-12)
    assert most == max(best.count(0), best.count(1))
    assert least == min(best.count(0), best.count(1))
    turns = tuple(i % 2 for i in range(episodes))
    assert memory.alternating(episodes, LAM) == pytest.approx(every[turns], rel=1e-12)


def test_measures_with_memory_agree_with_enumeration():
    episodes = 6
    probability = torch.rand(2 * episodes - 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    first = np.zeros(episodes)
    conditional = likelier = value = 0.0
    for lengths in itertools.product((0, 1), repeat=episodes):
        chance, entropies, largest, d = 1.0, 0.0, 0.0, 0
        for length in lengths:
            p = probability[d + episodes - 1].item()
            chance *= p if length else 1 - p
            entropies -= p * np.log2(p) + (1 - p) * np.log2(1 - p)
            largest += max(p, 1 - p)
            d += 1 if length else -1
        first += chance * np.array(lengths)
        conditional += chance * entropies / episodes
        likelier += chance * largest / episodes
        value += chance * returns(lengths, LAM) / episodes
    measured = memory.measure(probability, episodes, LAM)
    marginal = np.mean([-(p * np.log2(p) + (1 - p) * np.log2(1 - p)) for p in first])
    assert measured.marginal == pytest.approx(marginal)
    assert measured.conditional == pytest.approx(conditional)
    assert measured.predictable == pytest.approx(likelier)
    assert measured.value == pytest.approx(value)
