"""How often each length was chosen, in plain Python: in order, by a rule of counting, and side by side."""

import pytest
import torch

from drest_torch.counting import alike_in_group, counts_after, counts_before, own_count, weights_by_age
from tests.helpers import rules

WANING = "tests.helpers.rules:waning"
K = 3


def counted(earlier, weights):
    """Return N of each length after these mini-episodes; −1 is none."""
    played = [length for length in earlier if length >= 0]
    counts = [0.0] * K
    for age, length in enumerate(reversed(played), 1):
        counts[length] += 1 if weights is None else weights[age].item()
    return counts


def lengths_of(seed, shape=(4, 9)):
    """Return lengths, some of which are none."""
    return torch.randint(-1, K, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("count", [None, WANING])
def test_counts_are_of_the_mini_episodes_before_each(count):
    lengths = lengths_of(1)
    weights = None if count is None else weights_by_age(count, 9)
    before, after = counts_before(lengths, K, weights), counts_after(lengths, K, weights)
    for row, played in enumerate(lengths.tolist()):
        for place in range(len(played)):
            assert before[row, place].tolist() == pytest.approx(counted(played[:place], weights))
        assert after[row].tolist() == pytest.approx(counted(played, weights))
    assert not counts_after(lengths[:, :0], K, weights).any()


def test_the_own_count_is_that_of_the_length_or_0_without_one():
    counts = torch.tensor([[1.0, 4.0, 2.0], [5.0, 6.0, 7.0]])
    assert own_count(counts, torch.tensor([1, -1])).tolist() == [4, 0]


def test_those_of_a_group_that_are_alike_count_themselves():
    lengths = lengths_of(2)
    found = alike_in_group(lengths, K)
    for row, group in enumerate(lengths.tolist()):
        assert found[row].tolist() == [group.count(length) if length >= 0 else 0 for length in group]


def test_a_rule_is_told_how_long_ago_each_mini_episode_was():
    weights = weights_by_age(WANING, 4)
    assert weights.tolist() == [0, *rules.waning(torch.arange(1.0, 5.0, dtype=torch.float64)).tolist()]
    assert len(set(weights.tolist())) == 5
