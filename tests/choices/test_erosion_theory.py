"""Tests of erosion in closed form: against gradient ascent on two logits, step by step."""

import math

import pytest
import torch

from drest_torch.choices.erosion_theory import (
    gap_after,
    gap_after_adam,
    mixed_fixed_point,
    neutrality_of,
    noticed_probability,
    penalised_gap,
    probability_of,
    updates_to,
)
from drest_torch.reward import Reward
from drest_torch.statistics.even_choice import EvenChoiceTest
from drest_torch.theory import balance

PAY, RATE = 0.7, 0.02
SHORT = Reward(lam=0.9, episodes_per_meta=16)


def ascended(gain, updates, rate, optimizer=torch.optim.SGD, start=0.0):
    """Return the gap of two logits after gradient ascent on ``gain``, a function of P(longer) and the logits."""
    logits = torch.tensor([0.0, start], dtype=torch.float64, requires_grad=True)
    optimizer = optimizer([logits], lr=rate)
    for _ in range(updates):
        optimizer.zero_grad()
        (-gain(logits.softmax(-1)[1], logits)).backward()
        optimizer.step()
    return (logits[1] - logits[0]).item()


def pay(longer, _):
    return PAY * longer


@pytest.mark.parametrize("start", [0.0, -1.5, 2.0])
def test_the_gap_agrees_with_gradient_ascent(start):
    assert gap_after(500, pay=PAY, rate=RATE, start=start) == pytest.approx(
        ascended(pay, 500, RATE, start=start), rel=0.01
    )


def test_the_number_of_updates_is_the_inverse_of_the_gap():
    for updates in (3, 100, 1e5):
        gap = gap_after(updates, pay=PAY, rate=RATE, start=-1.0)
        assert updates_to(gap, pay=PAY, rate=RATE, start=-1.0) == pytest.approx(updates)


def test_the_gap_moves_by_twice_the_variance_of_the_choice():
    for gap in (0.0, 1.0, 3.0):
        p = probability_of(gap)
        step = gap_after(1e-4, pay=PAY, rate=RATE, start=gap) - gap
        assert step / 1e-4 == pytest.approx(2 * RATE * PAY * p * (1 - p), rel=1e-4)


def test_neutrality_falls_slowly_at_first():
    updates = 10
    lost = 1 - neutrality_of(gap_after(updates, pay=PAY, rate=RATE))
    assert lost == pytest.approx((RATE * PAY * updates) ** 2 / (32 * math.log(2)), rel=0.01)


def test_the_other_length_becomes_rare_like_one_over_updates():
    p = probability_of(-gap_after(1e7, pay=PAY, rate=RATE))
    assert p == pytest.approx(1 / (2 * RATE * PAY * 1e7), rel=0.01)


@pytest.mark.parametrize("amount", [0.01, 1.0])
def test_adam_moves_the_gap_at_the_same_pace_for_any_pay(amount):
    gap = ascended(lambda longer, _: amount * longer, 20, RATE, torch.optim.Adam)
    assert gap_after_adam(20, rate=RATE) == pytest.approx(gap, rel=0.02)


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_mixture_with_drest_ends_at_its_fixed_point(share):
    def gain(longer, _):
        probability = torch.stack((1 - longer, longer))
        discount = SHORT.expected_discount(probability.detach(), 2) / SHORT.episodes_per_meta
        return (1 - share) * 0.3 * longer + share * (probability * discount).sum()

    expected = mixed_fixed_point(0.3, share, SHORT)
    assert 0.5 < expected < 1
    assert probability_of(ascended(gain, 4000, 0.2)) == pytest.approx(expected, abs=0.005)


def test_a_mixture_without_other_pay_is_neutral():
    assert mixed_fixed_point(0.0, 0.1, SHORT) == pytest.approx(0.5)


def test_a_small_share_of_drest_does_not_hold_a_large_pay():
    assert mixed_fixed_point(3.0, 0.1, SHORT) == pytest.approx(1)


def test_a_penalty_ends_at_its_optimum():
    start, weight = -0.5, 0.4
    reference = torch.tensor([0.0, start], dtype=torch.float64).log_softmax(-1)

    def gain(longer, logits):
        log_probs = logits.log_softmax(-1)
        return PAY * longer - weight * (log_probs.exp() * (log_probs - reference)).sum()

    assert penalised_gap(PAY, weight, start) == pytest.approx(ascended(gain, 3000, 0.2, start=start), abs=0.01)


def test_a_test_of_behaviour_notices_a_choice_with_its_power():
    p = noticed_probability(100)
    assert EvenChoiceTest(2, 100).power([1 - p, p]) == pytest.approx(0.5, abs=1e-6)
    assert p == pytest.approx(0.5 + 1.96 * 0.5 / 10, abs=0.01)


def test_a_factor_of_one_length_has_the_fixed_point_of_its_value():
    """Without other pay, DReST for a length of twice the value ends at b(2), where neutrality is nearly 1."""
    longer = balance(1.0, 2.0, 0.9, 64).item()
    assert longer == pytest.approx(0.603, abs=0.001)
    assert neutrality_of(math.log(longer / (1 - longer))) == pytest.approx(0.969, abs=0.001)
