"""USEFULNESS, NEUTRALITY and the expected return, against the paper's definitions worked out by hand."""

import doctest
import math

import pytest
import torch

from drest_torch import metrics, reward
from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.reward import expected_return


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("module", [metrics, reward])
def test_the_examples_of_the_docstrings_run(module):
    done = doctest.testmod(module)
    assert done.attempted >= 2
    assert done.failed == 0


def test_usefulness_by_hand():
    assert usefulness(t(0.25, 0.75), t(1.0, 3.0), t(2.0, 3.0)).item() == pytest.approx(0.25 * 0.5 + 0.75)
    assert usefulness(t(0.0, 1.0), t(0.0, 1.5), t(2.0, 3.0)).item() == pytest.approx(0.5)


def test_neutrality_in_bits_by_hand():
    assert neutrality(t(0.5, 0.5)).item() == pytest.approx(1)
    assert neutrality(t(0.25, 0.25, 0.25, 0.25)).item() == pytest.approx(2)
    p = 0.1
    assert neutrality(t(p, 1 - p)).item() == pytest.approx(-p * math.log2(p) - (1 - p) * math.log2(1 - p))
    assert neutrality_normalised(t(0.25, 0.25, 0.25, 0.25), 4).item() == pytest.approx(1)
    thirds = t(1 / 3, 1 / 3, 1 / 3)
    assert neutrality_normalised(thirds, torch.tensor(3)).item() == pytest.approx(1)


def test_padding_changes_nothing():
    assert neutrality(t(0.3, 0.7, 0.0)) == neutrality(t(0.3, 0.7))
    assert usefulness(t(0.3, 0.7, 0.0), t(1, 2, 0), t(2, 2, 0)) == usefulness(t(0.3, 0.7), t(1, 2), t(2, 2))


@pytest.mark.parametrize("p", [(1.0, 0.0), (0.0, 0.0), (1e-300, 1.0), (0.4, 0.0)])
def test_never_nan_and_never_negative(p):
    probability = t(*p).requires_grad_()
    numbers = torch.stack(
        (
            neutrality(probability),
            neutrality_normalised(probability, 2),
            neutrality_normalised(probability, 1),
            usefulness(probability, t(1.0, 0.0), t(1.0, 0.0)),
            expected_return(probability, t(1.0, 0.0), t(1.0, 0.0), 2, 8, 0.9),
        )
    )
    assert numbers.isfinite().all()
    assert (numbers >= 0).all()
    assert (numbers[:3] < 1e-12).all()
    numbers.sum().backward()
    assert probability.grad.isfinite().all()


def test_a_policy_that_may_never_end_is_neutral_only_in_so_far_as_it_ends():
    assert neutrality(t(0.3, 0.3)).item() == pytest.approx(0.6)
    assert neutrality(t(0.37, 0.37)).item() <= 1


def test_expected_return_without_division_and_default_reward():
    p, coins = t(0.4, 0.6), t(2.0, 3.0)
    assert expected_return(p, coins, None, 2, 10, 1.0).item() == pytest.approx(10 * (0.8 + 1.8))
    assert expected_return(p, coins, t(2.0, 3.0), 2, 10, 1.0).item() == pytest.approx(10)
