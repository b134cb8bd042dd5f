"""Lopsided rewards: what is predicted of agents, and ranges of x."""

import numpy as np
import pandas as pd
import pytest
import torch

from drest_torch.metrics import neutrality
from drest_torch.studies.lopsided import SMALLER, predict, predicted_range, range_above, range_text
from drest_torch.theory import balance
from tests.helpers.studies import composed_study

CFG = composed_study("lopsided")


def test_what_is_predicted_is_the_balance_of_the_kind_of_agents():
    for lam, clip in ((0.9, None), (0.5, 5.0)):
        found = predict(lam, 64, clip, 0.1, 10.0)
        assert found.p_longer.tolist() == [balance(1.0, x, lam, 64, clip).item() for x in (0.1, 10.0)]
        p = torch.tensor(found.p_longer.tolist(), dtype=torch.float64)
        assert found.neutrality.tolist() == pytest.approx(neutrality(torch.stack((p, 1 - p), -1)).tolist())


@pytest.mark.parametrize("lam", [0.3, 0.5, 0.9])
def test_the_ends_of_the_predicted_range_have_half_a_bit_and_all_between_them_more(lam):
    """That is, as the paper states at λ = 0.9, for every x from 0.1 to 10."""
    low, high = predicted_range(CFG, lam, clipped=False)
    assert low < 0.1
    assert low * high == pytest.approx(1)
    first, *between, last = predict(lam, 64, None, *np.geomspace(low, high, 51)).neutrality
    assert (first, last) == pytest.approx((0.5, 0.5), abs=1e-5)
    assert min(between) > 0.5
    assert -(SMALLER * np.log2(SMALLER) + (1 - SMALLER) * np.log2(1 - SMALLER)) == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(
    ("values", "expected", "text"),
    [
        ([0, 0, 1, 0, 0], [10**-0.5, 10**0.5], "0.316 to 3.16"),
        ([0, 0.4, 0.8, 0.8, 0], [10**-0.75, 10 ** (1 + 0.375)], "0.178 to 23.7"),
        ([1, 1, 1, 1, 1], [0.01, 100], "all from 0.01 to 100"),
        ([1, 0, 1, 1, 0], [10**-0.5, 10**1.5], "0.316 to 31.6"),
        ([0.5, 0.5, 0.5, 0.5, 0.5], None, "none"),
        ([0, 0, 0, 0, 1], [10**1.5, 100], "31.6 to 100"),
    ],
)
def test_the_longest_stretch_above_the_mark(values, expected, text):
    x = np.geomspace(0.01, 100, 5)
    found = range_above(x, np.array(values, float), 0.5)
    assert found == (None if expected is None else pytest.approx(expected))
    assert range_text(pd.Series(values, pd.Index(x, name="x"), dtype=float)) == text
