"""The cells of tables in a report."""

import numpy as np
import pytest

from drest_torch.report.tables import interval, marked, median_range
from drest_torch.statistics.intervals import t_interval


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0.3, 0.1, 0.9], "0.30 (0.10 to 0.90)"),
        ([0.3001, 0.2999, float("nan")], "0.30"),
        ([1.0, float("inf"), float("inf")], "∞ (1.00 to ∞)"),
        ([-0.001, 0.001], "0.00"),
        ([float("nan")], "–"),
        ([], "–"),
    ],
)
def test_a_median_has_the_range_of_the_numbers(numbers, text):
    """Numbers that are NaN are left out."""
    assert median_range(np.array(numbers), 2) == text


@pytest.mark.parametrize(("value", "cell"), [(0.95, "✓ 0.95"), (0.90, "◐ 0.90"), (0.8, "✗ 0.80")])
def test_a_mark_rates_a_mean(value, cell):
    assert marked(0.95, 0.9, 2)(np.array([value])) == cell


def test_a_t_interval_is_clipped_to_the_range_of_the_measure():
    sample = np.array([0.1, 0.5, 0.7])
    assert interval(2)(sample) == t_interval(sample).text(2)
    assert interval(2, least=0, most=1)(sample) == "0.43 (0.00-1.00)"
