"""What DReST with credit within the mini-episode comes to between lotteries, in closed form and for two lengths.

The fixed point of two sure lengths is `drest_torch.theory.balance`. Here the options are lotteries, in which every
length offers the same share of m(l): all of it, or a share κ less.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.reward import expected_discount
from drest_torch.theory import balance


def _pays(chance: float, longer: Tensor, lam: float, episodes: int) -> Tensor:
    """Return the mean reward of a lottery with this chance of the longer length, which is had with P = ``longer``."""
    short, long = (expected_discount(p, 2, episodes, lam) for p in (1 - longer, longer))
    return (1 - chance) * short + chance * long


def critical_cost(first: float, second: float, lam: float, episodes: int) -> float:
    """Return κ*: below this share of the coins, DReST pays for a shift from p to q; 0 if it never does."""
    at = torch.tensor(first, dtype=torch.float64)
    return max(0.0, 1 - (_pays(first, at, lam, episodes) / _pays(second, at, lam, episodes)).item())


def paid_shift(first: float, second: float, cost: float, lam: float, episodes: int) -> float:
    """Return α, the probability of the lottery with chance q that costs the share κ, against that with chance p."""
    low, high = 0.0, 1.0
    for _ in range(60):
        alpha = (low + high) / 2
        longer = torch.tensor((1 - alpha) * first + alpha * second, dtype=torch.float64)
        worth = (1 - cost) * _pays(second, longer, lam, episodes) > _pays(first, longer, lam, episodes)
        low, high = (alpha, high) if bool(worth) else (low, alpha)
    return (low + high) / 2


def button_fixed_point(chance: float, lam: float, episodes: int) -> float:
    """Return P(longer) = min(c, b(c)) of a button that works by chance and costs the coins of the shorter length."""
    return min(chance, balance(1.0, chance, lam, episodes).item())


def button_optimum(chance: float, lam: float, episodes: int) -> float:
    """Return the P(longer) of such a button with the largest expected return of a meta-episode.

    It is no fixed point of training, which has credit within the mini-episode. The search uses a grid.
    """
    longer = torch.linspace(0, chance, 200_001, dtype=torch.float64)
    short, long = (expected_discount(p, 2, episodes, lam) for p in (1 - longer, longer))
    return longer[((1 - longer / chance) * short + longer * long).argmax()].item()


def button_usefulness(chance: float, longer: float) -> float:
    """Return the USEFULNESS 1 − P(1 − c) / c of pressing such a button until the longer length has probability P."""
    return 1 - longer * (1 - chance) / chance
