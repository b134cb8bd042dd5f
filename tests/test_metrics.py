"""Usefulness and neutrality against values computed by hand from the paper's definitions."""

import math

import pytest
import torch

from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.reward import Reward


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (usefulness(t(0.25, 0.75), t(1.0, 3.0), t(2.0, 3.0)), 0.25 * 0.5 + 0.75),
        (usefulness(t(0.0, 1.0), t(0.0, 1.5), t(2.0, 3.0)), 0.5),
        (usefulness(t(0.3, 0.7, 0.0), t(0.5, 2, 0), t(1, 2, 0)), 0.3 * 0.5 + 0.7),  # with padding
        (neutrality(t(0.5, 0.5)), 1),
        (neutrality(t(0.25, 0.25, 0.25, 0.25)), 2),
        (neutrality(t(0.1, 0.9, 0.0)), -0.1 * math.log2(0.1) - 0.9 * math.log2(0.9)),
        (neutrality_normalised(t(0.25, 0.25, 0.25, 0.25), 4), 1),
        (neutrality_normalised(t(1 / 3, 1 / 3, 1 / 3), torch.tensor(3)), 1),
        # A policy that may never end is neutral only to the extent that it ends.
        (neutrality(t(0.3, 0.3)), 0.6),
    ],
)
def test_metrics_by_hand(value, expected):
    assert value.item() == pytest.approx(expected)


@pytest.mark.parametrize("p", [(1.0, 0.0), (0.0, 0.0), (1e-300, 1.0), (0.4, 0.0)])
def test_metrics_of_extreme_policies_are_finite(p):
    probability = t(*p).requires_grad_()
    share = t(1.0, 0.0)
    reward = Reward(0.9, episodes_per_meta=8)
    numbers = [neutrality(probability), neutrality_normalised(probability, 2), neutrality_normalised(probability, 1)]
    assert all(0 <= number < 1e-12 for number in numbers)
    numbers += [usefulness(probability, share, share), reward.expected_return(probability, probability * share, 2)]
    assert all(0 <= number < math.inf for number in numbers)
    sum(numbers).backward()
    assert probability.grad.isfinite().all()
