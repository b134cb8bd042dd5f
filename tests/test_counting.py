"""Counts of chosen lengths against plain Python: in order, by a counting rule, and side by side."""

import pytest
import torch

from drest_torch.counting import count_of_chosen, counts_after, counts_before, same_length_in_group, weights_by_age
from tests.helpers import rules

WANING = "tests.helpers.rules:waning"
K = 3


def counted(earlier, weights):
    """Return N of each length after these mini-episodes; −1 stands for no length."""
    played = [length for length in earlier if length >= 0]
    counts = [0.0] * K
    for age, length in enumerate(reversed(played), 1):
        counts[length] += 1 if weights is None else weights[age].item()
    return counts


def lengths_of(seed, shape=(4, 9)):
    """Return random lengths, some of them −1."""
    return torch.randint(-1, K, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("count", [None, WANING])
def test_counts_are_of_earlier_mini_episodes(count):
    lengths = lengths_of(1)
    weights = None if count is None else weights_by_age(count, 9)
    before = counts_before(lengths, K, weights)
    after = counts_after(lengths, K, weights)
    for row, played in enumerate(lengths.tolist()):
        for place in range(len(played)):
            assert before[row, place].tolist() == pytest.approx(counted(played[:place], weights))
        assert after[row].tolist() == pytest.approx(counted(played, weights))
    assert not counts_after(lengths[:, :0], K, weights).any()


def test_the_count_of_no_length_is_0():
    counts = torch.tensor([[1.0, 4.0, 2.0], [5.0, 6.0, 7.0]])
    assert count_of_chosen(counts, torch.tensor([1, -1])).tolist() == [4, 0]


def test_a_mini_episode_counts_among_its_group():
    lengths = lengths_of(2)
    counts = same_length_in_group(lengths, K)
    for row, group in enumerate(lengths.tolist()):
        assert counts[row].tolist() == [group.count(length) if length >= 0 else 0 for length in group]


def test_a_counting_rule_receives_ages_from_1():
    weights = weights_by_age(WANING, 4)
    assert weights.tolist() == [0, *rules.waning(torch.arange(1.0, 5.0, dtype=torch.float64)).tolist()]
    assert len(set(weights.tolist())) == 5
