"""Tests of the exact test of an even choice, by enumeration."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest

from drest_torch.errors import ConfigError
from drest_torch.statistics.even_choice import EvenChoiceTest, RepeatedChoiceTest


def binomial(count, total, p):
    return math.comb(total, count) * p**count * (1 - p) ** (total - count)


def test_a_hundred_mini_episodes_reject_below_40_of_one_length():
    test = EvenChoiceTest(2, 100)
    rejected = [count for count in range(101) if test.p_value([count, 100 - count]) <= 0.05]
    assert rejected == [*range(40), *range(61, 101)]


@pytest.mark.parametrize("choices", [1, 7, 10, 100])
def test_p_values_of_two_options_are_those_of_the_binomial_test(choices):
    test = EvenChoiceTest(2, choices)
    for count in range(choices + 1):
        far = abs(count - choices / 2)
        tail = [binomial(other, choices, 0.5) for other in range(choices + 1) if abs(other - choices / 2) >= far]
        assert test.p_value([count, choices - count]) == pytest.approx(sum(tail))


def test_p_values_of_three_options_agree_with_enumeration():
    """All sequences of five choices are equally likely if choices are even."""
    test = EvenChoiceTest(3, 5)
    sequences = Counter()
    for sequence in product(range(3), repeat=5):
        sequences[tuple(sequence.count(option) for option in range(3))] += 1
    for counts, number in sequences.items():
        no_likelier = sum(other for other in sequences.values() if other <= number)
        assert test.p_value(counts) == pytest.approx(no_likelier / 3**5)


@pytest.mark.parametrize(("options", "choices"), [(2, 100), (2, 9), (3, 30), (4, 12)])
def test_the_test_rejects_an_even_choice_in_at_most_5_percent(options, choices):
    test = EvenChoiceTest(options, choices)
    assert 0 < test.power(np.full(options, 1 / options)) <= 0.05


def test_the_power_of_two_options_is_a_binomial_tail():
    chance = [binomial(count, 100, 0.7) for count in (*range(40), *range(61, 101))]
    assert EvenChoiceTest(2, 100).power([0.3, 0.7]) == pytest.approx(sum(chance))


def test_a_certain_choice_is_always_rejected():
    assert EvenChoiceTest(3, 20).power([0.0, 1.0, 0.0]) == pytest.approx(1)


def test_too_many_outcomes_are_refused():
    with pytest.raises(ConfigError, match="100 choices among 8 options has 26,075,972,546 outcomes"):
        EvenChoiceTest(8, 100)


def test_a_repeated_test_rejects_rarely_if_all_choices_are_even():
    """The probability of a false rejection is at most the level, and positive."""
    power = RepeatedChoiceTest(4, 2, 20).power(np.full((4, 2), 0.5))
    assert 0 < power <= 0.05


def test_the_power_of_a_repeated_test_agrees_with_enumeration():
    """All outcomes of two situations are tested, and their probabilities are summed."""
    test, chances = RepeatedChoiceTest(2, 2, 8), np.array([[0.1, 0.9], [0.6, 0.4]])
    power = 0.0
    for first, second in product(range(9), repeat=2):
        counts = np.array([[first, 8 - first], [second, 8 - second]])
        if test.p_value(counts) <= 0.05:
            power += binomial(first, 8, 0.1) * binomial(second, 8, 0.6)
    assert 0.2 < power < 0.9
    assert test.power(chances) == pytest.approx(power)
