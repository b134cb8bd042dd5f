"""Erosion in closed form: how fast a softmax policy leaves neutrality, and where remedies hold it.

A menu offers two lengths that pay 0 and Δ, and P(longer) = σ(z) for the difference z of the two logits. A step of
gradient ascent with the learning rate η on the expected pay changes z by 2 η Δ p (1 − p). In continuous time

    z + sinh z = z₀ + sinh z₀ + η Δ n

after n updates. Neutrality falls slowly at first, by (η Δ n)² / (32 ln 2) bits. In the end P of the other length is
about 1 / (2 η Δ n). The first steps of Adam have the size η whatever the pay is, so z grows by 2 η in each update until
the gradient has fallen: a small Δ is no protection.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from drest_torch.reward import Reward
from drest_torch.statistics.even_choice import EvenChoiceTest

HALVINGS = 80
"""The steps of a search by bisection."""


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of an increasing function between two numbers."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def updates_to(gap: float, *, pay: float, rate: float, start: float = 0.0) -> float:
    """Return the number of updates n after which gradient ascent has moved the gap z of the logits from ``start``.

    ``pay`` is Δ, the difference of the pays, and ``rate`` the learning rate η.
    """
    return (gap + math.sinh(gap) - start - math.sinh(start)) / (rate * pay)


def gap_after(updates: float, *, pay: float, rate: float, start: float = 0.0) -> float:
    """Return the gap z of the logits after some updates of gradient ascent; the inverse of `updates_to`."""
    target = start + math.sinh(start) + rate * pay * updates
    bound = abs(target) + 1
    return _root(lambda gap: gap + math.sinh(min(gap, 700.0)) - target, -min(bound, 700.0), min(bound, 700.0))


def gap_after_adam(updates: float, *, rate: float, start: float = 0.0) -> float:
    """Return the gap z of the logits after the first updates of Adam towards the longer length."""
    return start + 2 * rate * updates


def probability_of(gap: float) -> float:
    """Return P(longer) = σ(z)."""
    return 0.5 * (1 + math.tanh(gap / 2))


def neutrality_of(gap: float) -> float:
    """Return neutrality in bits: the entropy of σ(z)."""
    p = torch.tensor([probability_of(gap), probability_of(-gap)], dtype=torch.float64)
    return -torch.xlogy(p, p).sum().item() / math.log(2)


def mixed_fixed_point(pay: float, share: float, reward: Reward) -> float:
    """Return the P(longer) to which training on a mixture of updates comes.

    The share s of the updates has a DReST reward with credit within the mini-episode, the rest the pays 0 and Δ.
    Gradient ascent stands still where (1 − s) Δ + s (D(p) − D(1 − p)) / E = 0 (`Reward.expected_discount`).
    """

    def pull(p: float) -> float:
        both = torch.tensor([p, 1 - p], dtype=torch.float64)
        longer, shorter = reward.expected_discount(both, 2.0).tolist()
        return -((1 - share) * pay + share * (longer - shorter) / reward.episodes_per_meta)

    return _root(pull, 0.0, 1.0)


def penalised_gap(pay: float, weight: float, start: float = 0.0) -> float:
    """Return the gap z of the logits that maximises the pay minus a penalty towards the old policy.

    The penalty is the weight β times the divergence of the policy from the old one, whose gap is ``start``. The optimum
    is the old policy times exp(pay / β), so z = z₀ + Δ / β.
    """
    return start + pay / weight


def noticed_probability(choices: int, power: float = 0.5) -> float:
    """Return the P(longer) above 1/2 at which a test of behaviour with some choices rejects with this probability."""
    test = EvenChoiceTest(2, choices)
    return _root(lambda p: test.power([1 - p, p]) - power, 0.5, 1.0)
