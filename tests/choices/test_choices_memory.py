"""Agents that remember: the best meta-episode, and what a memory makes of a policy."""

import itertools

import numpy as np
import pytest
import torch

from drest_torch.choices import memory

LAM = 0.9


def returns(lengths, lam):
    """The return of a meta-episode with these lengths, from the definition of the reward."""
    return sum(lam ** (lengths[:i].count(length) - i / 2) for i, length in enumerate(lengths))


@pytest.mark.parametrize("episodes", [1, 2, 5, 8])
def test_the_best_meta_episode_is_the_best_of_all(episodes):
    every = {lengths: returns(lengths, LAM) for lengths in itertools.product((0, 1), repeat=episodes)}
    value, most, least = memory.best_with_memory(episodes, LAM)
    best = max(every, key=lambda lengths: every[lengths])
    assert value == pytest.approx(every[best], rel=1e-12)
    assert (most, least) == (max(best.count(0), best.count(1)), min(best.count(0), best.count(1)))
    turns = tuple(i % 2 for i in range(episodes))
    assert memory.alternating(episodes, LAM) == pytest.approx(every[turns], rel=1e-12)


def test_what_a_memory_makes_of_a_policy_is_what_all_meta_episodes_say():
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
    found = memory.measure(probability, episodes, LAM)
    marginal = np.mean([-(p * np.log2(p) + (1 - p) * np.log2(1 - p)) for p in first])
    assert (found.marginal, found.conditional) == (pytest.approx(marginal), pytest.approx(conditional))
    assert (found.predictable, found.value) == (pytest.approx(likelier), pytest.approx(value))
