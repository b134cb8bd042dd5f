"""Level sets that are compiled and solved once, whoever uses them, and what training pays for their coins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.exact.earliest import StateCounts, estimate_size
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


class LevelSet:
    """A compiled level set that keeps what was computed of it: its solution, and the sizes of its levels."""

    def __init__(self, mdp: Mdp) -> None:
        self.mdp, self.levels = mdp, list(mdp.levels)
        self._optima: dict[tuple[float, bool], Optima] = {}

    @cached_property
    def sizes(self) -> StateCounts:
        """The estimated size of each level."""
        return estimate_size(self.mdp)

    def optima(self, gamma: float, *, committed: bool = False) -> Optima:
        """Return the lengths and the best returns (`solve`)."""
        key = gamma, committed and self.mdp.any_luck
        if key not in self._optima:
            self._optima[key] = solve(self.mdp, gamma, committed=committed)
        return self._optima[key]

    def first(self, count: int) -> LevelSet:
        """Return the set of the first levels, at most ``count``, which are observed as in the whole."""
        mdp = self.mdp
        if count >= mdp.num_levels:
            return self
        size = (mdp.height, mdp.width)
        return LevelSet(compile_levels(mdp.levels[:count], mdp.device, at_least=size, features=mdp.features))


@dataclass(frozen=True)
class PaidCoins:
    """What training pays for coins, and by which values m is the most of a length: the keys of `configs/reward`.

    Coins that are paid as something else than they are worth are a misspecified preliminary reward. Agents see the
    actual values, and are judged by them.
    """

    pays: str = ACTUAL
    best_of: str = "paid"

    def paid(self, mdp: Mdp) -> Mdp:
        """Return the level set with the values that are paid."""
        if self.pays == ACTUAL:
            return mdp
        if mdp.has_lotteries:
            raise ConfigError(
                f"reward.pays={self.pays} on levels with lotteries, whose coins are no values of coins on the map; "
                f"use reward.pays={ACTUAL}"
            )
        return mdp.with_coins(VALUES[self.pays](mdp.coin))

    def optima(self, levels: LevelSet, gamma: float = 1.0, *, committed: bool = False) -> Optima:
        """Return the lengths of a level set with actual values, and the m(l) that training divides by (`solve`)."""
        if self.pays == ACTUAL or self.best_of == ACTUAL:
            return levels.optima(gamma, committed=committed)
        return solve(self.paid(levels.mdp), gamma, committed=committed)
