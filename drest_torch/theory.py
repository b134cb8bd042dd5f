"""Compute the fixed points of training and the optimal choices between trajectory-lengths, without any level.

A policy is described by the probability of each length. It collects all coins that the chosen length offers.

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

from drest_torch.reward import expected_discount

ROUNDING = 1e-12
"""Rewards and returns with a smaller relative difference count as equal."""
GRID_POINTS = 600
"""Points of the grid on which the search for the best choice starts."""


def mean_reward(
    probability: Tensor, value: Tensor | float, lam: float, episodes: int, clip: float | None = None
) -> Tensor:
    """Return Σ_i E[min(λ^(N − (i−1)/2) · value, clip)] for one of two lengths, chosen with this probability [...].

    N is binomial: each of the i − 1 earlier mini-episodes has the length independently.
    """
    value = torch.as_tensor(value, dtype=probability.dtype)
    if clip is None:
        return value * expected_discount(probability, 2, episodes, lam)
    count, before = torch.triu_indices(episodes, episodes).to(probability.dtype)  # all N ≤ i − 1
    others = before - count
    ways = torch.lgamma(before + 1) - torch.lgamma(count + 1) - torch.lgamma(others + 1)
    p = probability.unsqueeze(-1)
    chance = (ways + torch.xlogy(count, p) + torch.special.xlog1py(others, -p)).exp()
    return (chance * (value.unsqueeze(-1) * lam ** (count - before / 2)).clamp_max(clip)).sum(-1)


def balance(
    shorter: Tensor | float, longer: Tensor | float, lam: float, episodes: int, clip: float | None = None
) -> Tensor:
    """Return the P(longer) at which both lengths pay the same; the arguments [...] are the values of their coins.

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
            reward = mean_reward(p, longer, lam, episodes, clip)
            rises = reward > factor * mean_reward(1 - p, shorter, lam, episodes, clip)
            low, high = torch.where(rises, p, low), torch.where(rises, high, p)
        ends.append((low + high) / 2)
    return (ends[0] + ends[1]) / 2


def value_for(probability: float, lam: float, episodes: int, clip: float | None = None) -> float:
    """Return the value of the longer length at which it is chosen with this probability; the shorter has value 1."""
    p = torch.tensor(probability, dtype=torch.float64)
    target = mean_reward(1 - p, 1.0, lam, episodes, clip)
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        sufficient = mean_reward(p, math.exp(middle), lam, episodes, clip) > target
        low, high = (low, middle) if sufficient else (middle, high)
    return math.exp((low + high) / 2)


def choice_value(probability: Tensor, episodes: int, lam: float) -> Tensor:
    """Return the expected return [...] Σ_l p_l · D(p_l) of choices [..., k] that collect m(l) given each length."""
    return (probability * expected_discount(probability, probability.shape[-1], episodes, lam)).sum(-1)


def neutral_value(num_lengths: int, episodes: int, lam: float) -> float:
    """Return the expected return of a maximally useful and neutral policy: Σ_l D(1/k) / k."""
    return choice_value(torch.full((num_lengths,), 1 / num_lengths, dtype=torch.float64), episodes, lam).item()


@cache
def best_choice(num_lengths: int, episodes: int, lam: float) -> tuple[float, ...]:
    """Return the choice among k lengths with the largest expected return, the least likely length first.

    The return is a sum with one term per length. Dynamic programming over lengths therefore finds the best
    distribution of the points of a grid, and Newton's method refines it.
    """
    points = num_lengths * (GRID_POINTS // num_lengths)  # so that 1/k is on the grid
    p = torch.linspace(0, 1, points + 1, dtype=torch.float64)
    term = p * expected_discount(p, num_lengths, episodes, lam)
    place = torch.arange(points + 1)
    left = place.unsqueeze(-1) - place  # of so many points for all lengths so far, those for the last of them
    total, splits = term, []
    for number in range(2, num_lengths + 1):
        if number == num_lengths:
            left = left[-1:]  # all points, in the end
        total, split = torch.where(left >= 0, total + term[left.clamp_min(0)], -torch.inf).max(-1)
        splits.append(split)
    shares = [points]
    for split in reversed(splits):
        others = int(split[min(shares[-1], len(split) - 1)])
        shares[-1:] = [shares[-1] - others, others]
    return tuple(polish_choice(p[torch.tensor(shares)], episodes, lam).sort().values.tolist())


def polish_choice(probability: Tensor, episodes: int, lam: float) -> Tensor:
    """Return the choice [k] that Newton's method reaches on Σ_l p_l = 1, as long as its steps raise the return."""
    k = len(probability)
    for _ in range(20):
        p = probability.clone().requires_grad_()
        (slope,) = torch.autograd.grad((p * expected_discount(p, k, episodes, lam)).sum(), p, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.sum(), p)
        slope = slope.detach()
        price = (slope / curvature).sum() / (1 / curvature).sum()
        candidate = probability + (price - slope) / curvature
        better = choice_value(candidate, episodes, lam) > choice_value(probability, episodes, lam)
        if not (bool(better) and bool((candidate >= 0).all())):
            break
        probability = candidate / candidate.sum()
    return probability


def margin(num_lengths: int, episodes: int, lam: float) -> float:
    """Return the relative advantage of the best choice over the neutral one in expected return."""
    best = torch.tensor(best_choice(num_lengths, episodes, lam), dtype=torch.float64)
    return choice_value(best, episodes, lam).item() / neutral_value(num_lengths, episodes, lam) - 1


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
    """Return the E at which the curvature at 1/k changes its sign, with the mean discount at 1/k approximated by 1."""
    return 2 + 3 * num_lengths * lam ** (1 / num_lengths) / (1 - lam)
