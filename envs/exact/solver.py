"""The trajectory-lengths of a level and the best return of each: the paper's k and m(l).

They are computed exactly, by dynamic programming over the reachable states of the whole level set. The value of a state
is the largest discounted total of coins on arrival. Without a discount the tick does not matter, and the search of
`drest_torch.envs.exact.earliest` finds the same much faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.exact.earliest import StateCounts, estimate_size, fits_table, parts, properties
from drest_torch.envs.exact.layers import MAX_STATES, LevelEnds, StateLayer, walk
from drest_torch.envs.exact.luck import best_certain_return, best_conditional_return
from drest_torch.envs.levels import LevelError
from drest_torch.errors import ConfigError

LEVELS_AT_ONCE = 1024
STATES_AT_ONCE = 1 << 19
"""The maximum number of states of one tick in memory; only a single large level exceeds it."""
CAP = 2.0
"""The largest value of a coin with ``capped``."""
ACTUAL = "actual"
VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    ACTUAL: lambda coin: coin,
    "inverse": lambda coin: torch.where(coin > 0, 1 / coin, coin),
    "count": lambda coin: (coin > 0).to(coin),
    "capped": lambda coin: coin.clamp_max(CAP),
}
"""Payments for coins as functions of their values; a value of 0 means no coin."""
BEST_OF = ("paid", ACTUAL)
LONGEST = "longest"
ENDS = (ACTUAL, LONGEST)
"""The ends of mini-episodes in training: shutdown as on the map, or the longest length of the level."""


@dataclass(frozen=True)
class Optima:
    """The lengths and best returns of each level. The columns are its lengths, shortest first, padded with 0."""

    gamma: float
    lengths: Tensor
    """[B, K] the possible trajectory-lengths."""
    num_lengths: Tensor
    """[B] k, the number of lengths."""
    best_return: Tensor
    """[B, K] m(l), the largest γ-discounted total of coins of a trajectory of each length."""


def solve(mdp: Mdp, gamma: float = 1.0, *, allow_barren: bool = False, committed: bool = False) -> Optima:
    """Return the lengths and best returns of every level of a set, for a discount γ in (0, 1].

    Refuse a level in which no coin can be reached, unless ``allow_barren``. With ``committed`` the best return of a
    length is committed(l), the largest E[C] of policies with P(L = l) = 1, where this is positive, and m(l) elsewhere.

    m(l) is the paper's maximum of E[C | L = l] over policies. It is the largest total of any trajectory of length l
    with positive probability, even if buttons work by chance: a policy that plays the actions of this trajectory
    regardless of luck collects the same coins at the same ticks, and luck decides only when the mini-episode ends. If
    the coins themselves depend on luck, `drest_torch.envs.exact.luck` computes m(l).
    """
    check_gamma(gamma)
    if (
        not mdp.has_lotteries
        and gamma == 1
        and mdp.device.type == "cpu"
        and (mdp.coin == mdp.coin.round()).all()  # a total does not depend on the order of its coins
        and fits_table(mdp)
    ):
        level_properties = properties(mdp)
        optima = Optima(gamma, level_properties.lengths, level_properties.num_lengths, level_properties.best_return)
    else:
        optima = _solve_by_ticks(mdp, gamma)
    if not allow_barren:
        _check_coins(mdp, optima)
    if committed and mdp.any_luck:
        certain = committed_return(mdp, optima)
        optima = replace(optima, best_return=torch.where(certain > 0, certain, optima.best_return))
    return optima


def _solve_by_ticks(mdp: Mdp, gamma: float) -> Optima:
    """Solve by dynamic programming over all reachable states, tick by tick."""
    parts = _parts(mdp)
    # Copy the totals of the ends, so that the totals of the states can be freed.
    ends = [
        (layer.next_ends, layer.next_lengths, best[layer.next_states :].clone())
        for part in parts
        for layer, best in _best_totals(mdp, gamma, part)
    ]
    level, length, total = (torch.cat(numbers) for numbers in zip(*ends, strict=True))
    table = LevelEnds(level, length, mdp.num_levels)
    best = table.table(total)
    if mdp.coins_by_chance:
        best = torch.cat(
            [best_conditional_return(mdp, part, table.lengths[part.start : part.stop], gamma) for part in parts]
        )
    return Optima(gamma, table.lengths, table.num_lengths, best)


def committed_return(mdp: Mdp, optima: Optima) -> Tensor:
    """Return committed(l) [B, K], the largest E[C] of policies with P(L = l) = 1, or NaN if there is no such policy.

    Without luck it is m(l).
    """
    if not mdp.any_chance:
        return torch.where(optima.lengths > 0, optima.best_return, torch.nan)
    return torch.cat(
        [best_certain_return(mdp, part, optima.lengths[part.start : part.stop], optima.gamma) for part in _parts(mdp)]
    )


def check_gamma(gamma: float) -> None:
    """Refuse a discount outside (0, 1]."""
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma {gamma}; expected a discount above 0, at most 1")


def _parts(mdp: Mdp) -> list[range]:
    """Split the levels of a set into ranges to search together."""
    bound = mdp.num_cells << mdp.num_objects
    if mdp.any_chance:  # each button has two outcomes
        bound <<= max(len(level.buttons) for level in mdp.levels)
        bound *= max(prod(len(lottery.outcomes) for lottery in level.lotteries) for level in mdp.levels)
    at_once = min(LEVELS_AT_ONCE, STATES_AT_ONCE // bound)
    if at_once >= LEVELS_AT_ONCE // 16:
        return [range(first, min(first + at_once, mdp.num_levels)) for first in range(0, mdp.num_levels, at_once)]
    sizes = estimate_size(mdp)
    check_searchable(mdp, sizes.states)
    return parts(mdp, sizes.width, STATES_AT_ONCE, LEVELS_AT_ONCE)


def check_searchable(mdp: Mdp, states: Tensor) -> None:
    """Refuse levels with too many states [B] for the search for m(l)."""
    index = int(states.argmax())
    if states[index] > MAX_STATES:
        raise LevelError(
            f"{mdp.levels[index].place} has more than {MAX_STATES:,} reachable states (estimated), too many to find "
            "the most that can be collected in each trajectory-length, without which there is no usefulness; "
            "expected fewer coins and buttons, an earlier shutdown, or a smaller map"
        )


def _best_totals(mdp: Mdp, gamma: float, levels: range) -> Iterator[tuple[StateLayer, Tensor]]:
    """Yield each layer with the best totals at the states and ends of the next layer."""
    best = torch.zeros(len(levels), dtype=torch.float64, device=mdp.device)
    for layer in walk(mdp, levels):
        total = (best[:, None, None] + gamma**layer.tick * layer.coin).expand(layer.target.shape)
        best = total.new_full((layer.next_size,), -torch.inf)
        best.scatter_reduce_(0, layer.target.reshape(-1), total.reshape(-1), "amax")
        yield layer, best
        best = best[: layer.next_states]


def _check_coins(mdp: Mdp, optima: Optima) -> None:
    """Refuse a level in which no coin can be reached."""
    barren = (optima.best_return <= 0).all(-1)
    if barren.any():
        index = int(barren.nonzero()[0])
        raise LevelError(
            f"{mdp.levels[index].place}: no coin can be reached within {int(optima.lengths[index].max())} ticks, "
            "the longest trajectory; expected at least one"
        )


def optimal_route(mdp: Mdp, index: int, length: int, gamma: float = 1.0) -> list[tuple[int, int]]:
    """Return a best trajectory of this length in level ``index``, as the (row, column) after each tick.

    The start comes first. If a button works by chance, the route may need luck.
    """
    check_gamma(gamma)
    steps = list(_best_totals(mdp, gamma, range(index, index + 1)))
    if length not in [layer.tick + 1 for layer, _ in steps if len(layer.next_ends)]:
        raise ValueError(f"{mdp.levels[index].place}: no trajectory has length {length}")
    before = [torch.zeros(1, dtype=torch.float64, device=mdp.device)] + [best for _, best in steps]
    route = []
    goal = steps[length - 1][0].next_states  # the one end of this layer
    for layer, best in reversed(steps[:length]):
        total = before[layer.tick][: len(layer.spot), None, None] + gamma**layer.tick * layer.coin
        achieves = (layer.target == goal) & (total == best[goal])
        if layer.moving is not None:  # a free bump repeats the first move (see `walk`)
            achieves &= layer.moving.unsqueeze(-1)
        state, action, _ = achieves.nonzero()[0].tolist()
        route.append(int(mdp.goto[layer.spot[state] * NUM_ACTIONS + action]))
        goal = state
    route.append(int(mdp.start[index]))
    return [divmod(spot - index * mdp.num_cells, mdp.width) for spot in reversed(route)]


def with_longest_end(mdp: Mdp) -> Mdp:
    """Return the level set in which shutdown comes at the longest length of each level, whatever is pressed.

    A button is pressed as before, and its press takes a tick.
    """
    if mdp.any_luck:
        raise ConfigError(
            "reward.ends=longest on levels with luck, where an agent cannot know when shutdown would come; "
            "use levels without lotteries and with buttons that always work"
        )
    longest = solve(mdp, allow_barren=True).lengths.amax(-1)
    return mdp.ending_at(longest)


# ------------------------------------------------------------------ level sets, solved once


class LevelSet:
    """A compiled level set that caches its solution and the sizes of its levels."""

    def __init__(self, mdp: Mdp) -> None:
        self.mdp, self.levels = mdp, mdp.levels
        self._optima: dict[tuple[float, bool], Optima] = {}

    @cached_property
    def sizes(self) -> StateCounts:
        """The estimated size of each level."""
        return estimate_size(self.mdp)

    def optima(self, gamma: float, *, committed: bool = False) -> Optima:
        """Return the lengths and the best returns, solved once for each discount (`solve`)."""
        key = gamma, committed and self.mdp.any_luck
        if key not in self._optima:
            self._optima[key] = solve(self.mdp, gamma, committed=committed)
        return self._optima[key]

    def first(self, count: int) -> LevelSet:
        """Return the set of at most the first ``count`` levels, with the observations of the whole set."""
        mdp = self.mdp
        if count >= mdp.num_levels:
            return self
        size = (mdp.height, mdp.width)
        return LevelSet(compile_levels(mdp.levels[:count], mdp.device, at_least=size, features=mdp.features))


@dataclass(frozen=True)
class PaidCoins:
    """The payments for coins in training, and the values that define m(l): keys of `configs/reward`.

    Payments that differ from the actual values are a misspecified preliminary reward. With ``ends="longest"`` training
    pays as if shutdown came at the longest length whatever is pressed. Agents see the actual levels, and are evaluated
    in them.
    """

    pays: str = ACTUAL
    best_of: str = "paid"
    ends: str = ACTUAL

    def paid(self, mdp: Mdp) -> Mdp:
        """Return the level set with the paid values of coins, and with the ends that training pays for."""
        return self._ended(self._valued(mdp))

    def optima(self, levels: LevelSet, gamma: float = 1.0) -> Optima:
        """Return the lengths of a level set, and the m(l) that training divides by (`solve`)."""
        mdp = levels.mdp
        if self.best_of != ACTUAL:
            mdp = self._valued(mdp)
        mdp = self._ended(mdp)
        if mdp is levels.mdp:
            return levels.optima(gamma)
        return solve(mdp, gamma)

    def _ended(self, mdp: Mdp) -> Mdp:
        if self.ends == ACTUAL:
            return mdp
        return with_longest_end(mdp)

    def _valued(self, mdp: Mdp) -> Mdp:
        if self.pays == ACTUAL:
            return mdp
        if mdp.has_lotteries:
            raise ConfigError(
                f"reward.pays={self.pays} on levels with lotteries, whose coins do not lie on the map; "
                f"use reward.pays={ACTUAL}"
            )
        return mdp.with_coins(VALUES[self.pays](mdp.coin))
