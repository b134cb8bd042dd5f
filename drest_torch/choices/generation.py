"""Batches of random menus: sure trajectories, lotteries over coins, and lotteries over lengths."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drest_torch.choices.menus import Menus

KINDS = ("sure", "coins", "lotteries", "shared")
"""Sure trajectories; sure lengths with random coins; lotteries over the same lengths; lotteries over any lengths."""
OUTCOMES = 3


def random_menus(kind: str, number: int, generator: torch.Generator, options: int = 2) -> Menus:
    """Return random menus with ``options`` options of up to three outcomes each.

    Coins range from 1 to 10. One option's coins are often slightly better or worse than another's, and chances are
    often extreme.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(number, *shape, generator=generator)

    first = 1 + (uniform(1) * 8).long()
    places = torch.cat((first, first + 1 + (uniform(1) * 4).long()), -1)
    if kind in ("lotteries", "shared"):
        third = uniform(1) < 0.2
        places = torch.cat((places, torch.where(third, places[:, 1:] + 1 + (uniform(1) * 3).long(), 0)), -1)
    base = (uniform(1, OUTCOMES) * math.log(10)).exp()
    size = (math.log(0.01) + uniform(options, 1) * math.log(100)).exp()
    alike = uniform(options, 1) < 0.6
    sign = torch.where(alike, (uniform(options, 1) - 0.5).sign(), (uniform(options, OUTCOMES) - 0.5).sign())
    vary = torch.where(alike & (uniform(options, 1) < 0.7), 1.0, uniform(options, OUTCOMES))
    coins = base * (sign * size * vary).exp()
    coins = torch.where(uniform(1, 1) < 0.2, (uniform(options, OUTCOMES) * 10).ceil(), coins)
    if kind in ("sure", "coins"):
        column = (uniform(options) * 2).long()
        length = places.gather(-1, column).unsqueeze(-1).expand(-1, -1, OUTCOMES).clone()
        coins = torch.where(uniform(1, 1) < 0.3, coins, coins.gather(-1, column.unsqueeze(-1)))
        weights = torch.zeros(number, options, OUTCOMES)
        weights[..., 0] = 1
        if kind == "coins":
            lucky = uniform(options) * 0.9 + 0.05
            weights[..., 0], weights[..., 1] = lucky, 1 - lucky
            coins[..., 1] = coins[..., 0] * (2 * uniform(options) - 1).exp()
    else:
        length = places.unsqueeze(1).expand(-1, options, -1).clone()
        steep = torch.where(uniform(options, 1) < 0.4, 5.0, 1.5)
        weights = (steep * torch.randn(number, options, OUTCOMES, generator=generator)).exp().clamp(1e-3, 1e3)
        equal = uniform(1, 1) < 0.15
        weights = torch.where(equal, weights[:, :1], weights) * (length > 0)
        if kind == "shared":
            possible = uniform(options, OUTCOMES) < 0.6
            weights = weights * torch.where((possible & (length > 0)).any(-1, keepdim=True), possible, True)
    chance = weights / weights.sum(-1, keepdim=True)
    return Menus(chance, torch.where(chance > 0, length, 0), coins * (chance > 0))
