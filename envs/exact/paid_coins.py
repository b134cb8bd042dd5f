"""Other coins than the actual ones for training to pay: a misspecified preliminary reward.

Agents see the actual values, and are judged by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.solver import Optima, solve
from drest_torch.errors import ConfigError

CAP = 2.0
"""What a coin is worth at most with ``capped``."""
ACTUAL = "actual"
VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    ACTUAL: lambda coin: coin,
    "inverse": lambda coin: torch.where(coin > 0, 1 / coin, coin),
    "count": lambda coin: (coin > 0).to(coin),
    "capped": lambda coin: coin.clamp_max(CAP),
}
"""What is paid for coins, from their values, 0 where there is none."""
BEST_OF = ("paid", ACTUAL)


@dataclass(frozen=True)
class PaidCoins:
    """What training pays for coins, and by which values m is the most of a length: the keys of `configs/reward`."""

    pays: str = ACTUAL
    best_of: str = "paid"

    def paid(self, mdp: Mdp) -> Mdp:
        """Return the level set with the values that are paid."""
        if self.pays == ACTUAL:
            return mdp
        if mdp.lotteries is not None:
            raise ConfigError(
                f"reward.pays={self.pays} on levels with lotteries, whose coins are no values of coins on the map; "
                f"use reward.pays={ACTUAL}"
            )
        return replace(mdp, layers={**mdp.layers, "coin": VALUES[self.pays](mdp.coin)})

    def optima(self, mdp: Mdp, gamma: float = 1.0, *, committed: bool = False) -> Optima:
        """Return the lengths of a level set with actual values, and the m(l) that training divides by (`solve`)."""
        return solve(self.paid(mdp) if self.best_of == "paid" else mdp, gamma, committed=committed)
