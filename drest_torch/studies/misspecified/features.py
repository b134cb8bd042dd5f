"""Features of coins that coincide with their value, and levels in which they do or do not.

The maps come from the generator. The values of a level's coins are then given out again in the order of a feature: the
coin with most of it becomes the most valuable one, or, in the reverse order, the least valuable one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Button, Coin, Level

AT_ONCE = 256
"""Levels that are solved together."""
LARGE = 2.0**20
"""More than all coins of a level together: its multiples and what is added to them can be told apart."""


def _apart(coin: Coin, row: int, column: int) -> int:
    return abs(coin.row - row) + abs(coin.column - column)


def _buttons(level: Level) -> list[Button]:
    return [thing for thing in level.objects if isinstance(thing, Button)]


FEATURES: dict[str, Callable[[Level, Coin], int]] = {
    "near": lambda level, coin: -_apart(coin, *level.start),
    "left": lambda level, coin: -coin.column,
    "button": lambda level, coin: -min(_apart(coin, button.row, button.column) for button in _buttons(level)),
}
"""How much a coin has of each feature: being near to the start, on the left of the map, near to a button."""


def by_feature(level: Level, feature: str, *, reverse: bool = False) -> Level:
    """Return the level with its coins' values in the order of the feature, or in the reverse order."""
    coins = sorted(level.coins, key=lambda coin: FEATURES[feature](level, coin), reverse=reverse)
    values = sorted(coin.value for coin in coins)
    changed = {coin: replace(coin, value=value) for coin, value in zip(coins, values, strict=True)}
    return replace(
        level, objects=tuple(changed[thing] if isinstance(thing, Coin) else thing for thing in level.objects)
    )


def is_clear(level: Level, feature: str) -> bool:
    """Return whether no two coins have the same value, or as much of the feature."""
    values, much = zip(*((coin.value, FEATURES[feature](level, coin)) for coin in level.coins), strict=True)
    return len(set(values)) == len(set(much)) == len(values)


def share_left(mdp: Mdp, paid: Mdp) -> Tensor:
    """Return what is left of m [B, K], given each length, by a policy that is as useful as can be by other values.

    ``paid`` is the same level set with these values; all values are whole numbers. Of all such policies it is the most
    useful one. It is 1 where m is 0.
    """
    both = replace(paid, layers={**paid.layers, "coin": LARGE * paid.coin + mdp.coin})
    actual, mixed = (solve(each, allow_barren=True).best_return for each in (mdp, both))
    return torch.where(actual > 0, (mixed % LARGE) / actual, 1.0)


def designs(levels: Iterable[Level], feature: str, most: float) -> Iterator[Level]:
    """Yield the levels in which the order of the coins' values matters.

    Given each length, what is best by the feature must leave at most the share ``most`` of m in the reverse order.
    """
    clear = (level for level in levels if is_clear(level, feature))
    while several := list(islice(clear, AT_ONCE)):
        reverse, coincide = (
            compile_levels([by_feature(level, feature, reverse=order) for level in several]) for order in (True, False)
        )
        worst = share_left(reverse, coincide).amax(-1)
        yield from (level for level, share in zip(several, worst.tolist(), strict=True) if share <= most)


def lengths_differ(levels: Sequence[Level], feature: str) -> list[bool]:
    """Return for each level whether its longest and its shortest length differ in what they offer by the feature."""
    best = solve(compile_levels([by_feature(level, feature) for level in levels]), allow_barren=True).best_return
    return (best[:, 0] != best[:, -1]).tolist()
