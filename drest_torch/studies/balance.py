"""Where training comes to rest between two trajectory-lengths, in closed form.

With credit within the mini-episode (docs/theorem.md, last section) probability moves to the length whose coins
pay more on average over a meta-episode. A length pays less the more often it is chosen, so there is one place of
rest: where both pay the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drest_torch.reward import expected_discount

_ROUNDING = 1e-12
"""Rewards that differ by less, relatively, are the same."""


def mean_reward(
    probability: Tensor, value: Tensor | float, lam: float, episodes: int, clip: float | None = None
) -> Tensor:
    """Σ_i E[min(λ^(N − (i−1)/2) · value, clip)] of one of two lengths, chosen with this probability [...].

    N is binomial: each of the i − 1 mini-episodes before has the length independently.
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
    """P(longer) at which both lengths pay the same, for what each offers [...].

    0 or 1 where one of them pays more whatever is chosen, and the middle where they pay the same over a stretch.
    """
    shorter, longer = (torch.as_tensor(each, dtype=torch.float64) for each in (shorter, longer))
    ends = []
    for margin in (1 + _ROUNDING, 1 - _ROUNDING):
        low = torch.zeros_like(shorter + longer)
        high = torch.ones_like(low)
        for _ in range(45):
            p = (low + high) / 2
            pays = mean_reward(p, longer, lam, episodes, clip)
            rises = pays > margin * mean_reward(1 - p, shorter, lam, episodes, clip)
            low, high = torch.where(rises, p, low), torch.where(rises, high, p)
        ends.append((low + high) / 2)
    return (ends[0] + ends[1]) / 2


def value_for(probability: float, lam: float, episodes: int, clip: float | None = None) -> float:
    """What the longer length has to offer to be chosen with this probability, if the shorter offers 1."""
    p = torch.tensor(probability, dtype=torch.float64)
    wanted = mean_reward(1 - p, 1.0, lam, episodes, clip)
    if clip is None:
        return (wanted / mean_reward(p, 1.0, lam, episodes)).item()
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        enough = mean_reward(p, math.exp(middle), lam, episodes, clip) > wanted
        low, high = (low, middle) if enough else (middle, high)
    return math.exp((low + high) / 2)


def best_choice(shorter: Tensor | float, longer: Tensor, lam: float, episodes: int) -> Tensor:
    """P(longer) at which the expected return of the whole meta-episode is largest, for what each offers [X].

    Where two are equally good, the smaller. Found on a grid of odds, of which each is 1 % more than the last.
    """
    inner = torch.linspace(-20, 20, 4001, dtype=torch.float64).sigmoid()
    p = torch.cat((torch.zeros(1).double(), inner, torch.ones(1).double()))
    shares = [q * expected_discount(q, 2, episodes, lam) for q in (p, 1 - p)]
    total = longer.unsqueeze(-1) * shares[0] + torch.as_tensor(shorter, dtype=torch.float64).unsqueeze(-1) * shares[1]
    best = total.max(-1, keepdim=True).values
    return p[(total >= best * (1 - 1e-12)).double().argmax(-1)]
