"""Fixed points of training and optimal choices between trajectory-lengths, without levels.

A policy is described by the probability of each length. It collects the best return of the chosen length.

With credit within the mini-episode (docs/explanation/theorem.md) probability moves to the length that pays more on
average over a meta-episode. A length pays less the more often it is chosen. With two lengths there is therefore one
fixed point, where both pay the same (`balance`). With credit for the whole meta-episode, the expected return is
Σ_l p_l · D(p_l). `best_choice` maximises it over the simplex.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache

import torch
from torch import Tensor

from drest_torch.reward import expected_discount, log_expected_discount

ROUNDING = 1e-12
"""The relative difference below which rewards and returns count as equal."""
SMALLEST_PROBABILITY = 1e-8
"""The smallest probability on the grid of `best_choice`; the best probability is about 1 / E."""


def mean_reward(
    probability: Tensor, value: Tensor | float, lam: float, episodes: int, clip: float | None = None
) -> Tensor:
    """Return Σ_i E[min(λ^(N − (i−1)/2) · value, clip)] for one of two lengths, chosen with this probability [...].

    N is binomial, because the i − 1 earlier mini-episodes have the length independently.
    """
    value = torch.as_tensor(value, dtype=probability.dtype)
    if clip is None:
        return value * expected_discount(probability, 2, episodes, lam)
    count, before = torch.triu_indices(episodes, episodes).to(probability.dtype)  # all N ≤ i − 1
    different = before - count
    ways = torch.lgamma(before + 1) - torch.lgamma(count + 1) - torch.lgamma(different + 1)
    p = probability.unsqueeze(-1)
    chance = (ways + torch.xlogy(count, p) + torch.special.xlog1py(different, -p)).exp()
    return (chance * (value.unsqueeze(-1) * lam ** (count - before / 2)).clamp_max(clip)).sum(-1)


def _log_mean_reward(
    probability: Tensor, value: Tensor | float, lam: float, episodes: int, clip: float | None
) -> Tensor:
    """Return the logarithm of `mean_reward`, which is finite for every E."""
    if clip is not None:
        return mean_reward(probability, value, lam, episodes, clip).log()
    return torch.as_tensor(value, dtype=probability.dtype).log() + log_expected_discount(probability, 2, episodes, lam)


def balance(
    shorter: Tensor | float, longer: Tensor | float, lam: float, episodes: int, clip: float | None = None
) -> Tensor:
    """Return the P(longer) at which both lengths pay the same, for coins of these values [...].

    The result is 0 or 1 if one length pays more at every probability, and the midpoint if both pay the same on an
    interval of probabilities.
    """
    shorter, longer = (torch.as_tensor(value, dtype=torch.float64) for value in (shorter, longer))
    ends = []
    for factor in (1 + ROUNDING, 1 - ROUNDING):
        low = torch.zeros_like(shorter + longer)
        high = torch.ones_like(low)
        for _ in range(45):
            p = (low + high) / 2
            reward = _log_mean_reward(p, longer, lam, episodes, clip)
            rises = reward > math.log(factor) + _log_mean_reward(1 - p, shorter, lam, episodes, clip)
            low, high = torch.where(rises, p, low), torch.where(rises, high, p)
        ends.append((low + high) / 2)
    return (ends[0] + ends[1]) / 2


def value_for(probability: float, lam: float, episodes: int, clip: float | None = None) -> float:
    """Return the value of the longer length at which it has this probability, if the shorter has value 1."""
    p = torch.tensor(probability, dtype=torch.float64)
    target = _log_mean_reward(1 - p, 1.0, lam, episodes, clip)
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        sufficient = _log_mean_reward(p, math.exp(middle), lam, episodes, clip) > target
        low, high = (low, middle) if sufficient else (middle, high)
    return math.exp((low + high) / 2)


def choice_value(probability: Tensor, episodes: int, lam: float) -> Tensor:
    """Return the expected return [...] Σ_l p_l · D(p_l) of choices [..., k] that collect m(l) given each length.

    The result is infinite on overflow, unlike `log_choice_value`.
    """
    return log_choice_value(probability, episodes, lam).exp()


def log_choice_value(probability: Tensor, episodes: int, lam: float) -> Tensor:
    """Return the logarithm of `choice_value`, which is finite for every E."""
    k = probability.shape[-1]
    return (probability.log() + log_expected_discount(probability, k, episodes, lam)).logsumexp(-1)


def neutral_value(num_lengths: int, episodes: int, lam: float) -> float:
    """Return the expected return of a maximally useful and neutral policy: Σ_l D(1/k) / k."""
    return choice_value(_neutral(num_lengths), episodes, lam).item()


def _neutral(num_lengths: int) -> Tensor:
    return torch.full((num_lengths,), 1 / num_lengths, dtype=torch.float64)


@cache
def best_choice(num_lengths: int, episodes: int, lam: float) -> tuple[float, ...]:
    """Return the choice among k lengths with the largest expected return, the least likely length first.

    The return is Σ_l φ(p_l) with φ(p) = p · D(p), which is concave up to some p and convex beyond it. At a maximum at
    most one length is in the convex part, and the others have the same slope and therefore the same probability q.
    The search for q uses a grid, then Newton's method.
    """
    neutral = 1 / num_lengths
    rare = torch.logspace(math.log10(SMALLEST_PROBABILITY), math.log10(neutral), 400, dtype=torch.float64)[:-1]
    common = torch.linspace(neutral, 1 / (num_lengths - 1), 100, dtype=torch.float64)[:-1]
    grid = torch.cat((rare, common))
    q = grid[_log_value_with_equal(grid, num_lengths, episodes, lam).argmax()]
    if q == neutral:
        return (neutral,) * num_lengths
    equal = _newton(q, num_lengths, episodes, lam).item()
    return tuple(sorted([equal] * (num_lengths - 1) + [1 - (num_lengths - 1) * equal]))


def _log_value_with_equal(q: Tensor, num_lengths: int, episodes: int, lam: float) -> Tensor:
    """Return `log_choice_value` [...] if all lengths but one have probability q [...]."""
    equal = num_lengths - 1
    probability = torch.stack((q, 1 - equal * q), -1)  # [..., 2]
    number = probability.new_tensor([equal, 1])
    discount = log_expected_discount(probability, num_lengths, episodes, lam)
    return (number.log() + probability.log() + discount).logsumexp(-1)


def _newton(q: Tensor, num_lengths: int, episodes: int, lam: float) -> Tensor:
    """Return the q after Newton's method, which stops when a step does not increase the return."""
    for _ in range(20):
        point = q.clone().requires_grad_()
        value = _log_value_with_equal(point, num_lengths, episodes, lam)
        (slope,) = torch.autograd.grad(value, point, create_graph=True)
        (curvature,) = torch.autograd.grad(slope, point)
        candidate = q - (slope / curvature).detach()
        if not 0 < candidate < 1 / (num_lengths - 1):
            break
        if _log_value_with_equal(candidate, num_lengths, episodes, lam) < value:
            break
        q = candidate
    return q


def margin(num_lengths: int, episodes: int, lam: float) -> float:
    """Return the relative excess of the best choice's expected return over the neutral choice's."""
    best = torch.tensor(best_choice(num_lengths, episodes, lam), dtype=torch.float64)
    neutral = log_choice_value(_neutral(num_lengths), episodes, lam)
    return (log_choice_value(best, episodes, lam) - neutral).expm1().item()


def is_neutral_best(num_lengths: int, episodes: int, lam: float) -> bool:
    """Return whether no choice has a larger expected return than the neutral one."""
    return margin(num_lengths, episodes, lam) <= ROUNDING


def largest_neutral(num_lengths: int, lam: float) -> int:
    """Return the largest E for which no choice has a larger expected return than the neutral one."""
    low, high = 1, 2
    while is_neutral_best(num_lengths, high, lam):
        low, high = high, 2 * high
    between = range(low + 1, high)
    return low + bisect_left(between, True, key=lambda size: not is_neutral_best(num_lengths, size, lam))


def rule_of_thumb(num_lengths: int, lam: float) -> float:
    """Return the E at which the curvature at 1/k changes its sign, if the mean discount at 1/k is approximated by 1."""
    return 2 + 3 * num_lengths * lam ** (1 / num_lengths) / (1 - lam)
