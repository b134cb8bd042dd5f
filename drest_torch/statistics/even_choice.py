"""The exact test of an even choice among k options, and its power: would a test of behaviour notice a change?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from drest_torch.errors import ConfigError

MOST_OUTCOMES = 500_000
"""The largest number of outcomes that are enumerated."""
ROUNDING = 1e-9
"""The relative difference below which two probabilities count as equal."""


class EvenChoiceTest:
    """The exact two-sided test of whether n independent choices are even among k options.

    The p-value is the probability, if choices are even, of all outcomes that are no likelier than the observed one. For
    two options it is the two-sided binomial test, for more the exact multinomial test.
    """

    def __init__(self, options: int, choices: int, level: float = 0.05) -> None:
        outcomes = math.comb(choices + options - 1, options - 1)
        if options < 2 or choices < 1 or outcomes > MOST_OUTCOMES:
            raise ConfigError(
                f"a test of {choices} choices among {options} options has {outcomes:,} outcomes; expected at least 2 "
                f"options, and at most {MOST_OUTCOMES:,} outcomes"
            )
        self.options, self.choices, self.level = options, choices, level
        self.counts = _compositions(options, choices)
        """[S, k] the counts of all outcomes."""
        even = self._probabilities(np.full(options, 1 / options))
        order = np.argsort(even)
        cumulative = np.cumsum(even[order])
        at_most = np.searchsorted(even[order], even * (1 + ROUNDING), side="right")
        self.p_values = cumulative[at_most - 1]
        """[S] the p-value of each outcome."""

    def p_value(self, counts: Sequence[int] | np.ndarray) -> float:
        """Return the p-value of observed counts [k]."""
        observed = np.asarray(counts)
        if observed.shape != (self.options,) or observed.sum() != self.choices:
            raise ValueError(f"counts {observed.tolist()}; expected {self.options} with the sum {self.choices}")
        return float(self.p_values[(self.counts == observed).all(-1)][0])

    def power(self, probability: Sequence[float] | np.ndarray) -> float:
        """Return the probability that the test rejects an even choice, if options have these probabilities [k]."""
        chances = self._probabilities(np.asarray(probability, dtype=float))
        return min(1.0, float(chances[self.p_values <= self.level].sum()))

    def _probabilities(self, probability: np.ndarray) -> np.ndarray:
        """Return the probability of each outcome [S]."""
        log_factorial = np.array([math.lgamma(count + 1) for count in range(self.choices + 1)])
        ways = log_factorial[self.choices] - log_factorial[self.counts].sum(-1)
        is_possible = probability > 0
        logs = np.log(np.where(is_possible, probability, 1))
        impossible = (self.counts * ~is_possible).any(-1)
        return np.where(impossible, 0, np.exp(ways + (self.counts * logs).sum(-1)))


class RepeatedChoiceTest:
    """The exact test of whether n independent choices are even among k options in each of several situations.

    Each situation is tested by itself, and Holm's correction keeps the probability of any false rejection at the level.
    The test rejects if it rejects in any situation.
    """

    def __init__(self, situations: int, options: int, choices: int, level: float = 0.05) -> None:
        self.situations = situations
        self.single = EvenChoiceTest(options, choices, level / situations)
        """The test of a single situation, at the level at which Holm rejects the smallest p-value."""

    def p_value(self, counts: np.ndarray) -> float:
        """Return the smallest of the corrected p-values of observed counts [situations, k]."""
        smallest = min(map(self.single.p_value, counts))
        return min(1.0, self.situations * smallest)

    def power(self, probability: np.ndarray) -> float:
        """Return the probability that the test rejects, if options have these probabilities [situations, k]."""
        missed = [1 - self.single.power(chances) for chances in probability]
        return 1 - math.prod(missed)


@lru_cache(maxsize=4)
def _compositions(options: int, choices: int) -> np.ndarray:
    """Return all counts [S, k] of k options with this sum."""
    bars = np.array(list(combinations(range(choices + options - 1), options - 1)))
    ends = np.full((len(bars), 1), choices + options - 1)
    starts = np.full((len(bars), 1), -1)
    return np.diff(np.concatenate((starts, bars, ends), -1), axis=-1) - 1
