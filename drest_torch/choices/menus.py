"""Menus: single decisions between options, which are lotteries over trajectory-lengths and coins.

`Menus` holds a batch of menus as padded tensors, for computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from drest_torch.errors import LevelError

SAME, PART_SHARED, DIFFERENT = "same-length", "part-shared-length", "different-length"


@dataclass(frozen=True, order=True)
class Outcome:
    """The length, coins and probability of a trajectory."""

    length: int
    coins: float
    chance: Fraction


@dataclass(frozen=True)
class Option:
    """A lottery over trajectories, sorted by length; outcomes of the same length and coins are merged."""

    outcomes: tuple[Outcome, ...]

    @staticmethod
    def of(*outcomes: tuple[Fraction | int | str, int, float]) -> Option:
        """Return the option with these outcomes (chance, length, coins), such as ("1/3", 2, 5) and ("2/3", 1, 2)."""
        chances: dict[tuple[int, float], Fraction] = {}
        for chance, length, coins in outcomes:
            if share := Fraction(chance):
                place = (int(length), float(coins))
                chances[place] = chances.get(place, Fraction(0)) + share
        if (total := sum(chances.values())) != 1:
            raise LevelError(f"the chances of an option sum to {total}; expected 1, for instance 1/3 and 2/3")
        return Option(tuple(sorted(Outcome(*place, share) for place, share in chances.items())))

    @property
    def support(self) -> frozenset[int]:
        """The lengths of positive probability."""
        return frozenset(outcome.length for outcome in self.outcomes)

    def chance(self, length: int) -> Fraction:
        """Return P(L = l)."""
        return sum((outcome.chance for outcome in self.outcomes if outcome.length == length), Fraction(0))

    def coins(self, length: int) -> float:
        """Return E[C | L = l] for a length of the support."""
        total = sum(float(outcome.chance) * outcome.coins for outcome in self.outcomes if outcome.length == length)
        return total / float(self.chance(length))

    def expected(self) -> float:
        """Return E[C]."""
        return sum(float(outcome.chance) * outcome.coins for outcome in self.outcomes)


def kind(first: Option, second: Option) -> str:
    """Classify a pair of lotteries by their supports, as `SAME`, `PART_SHARED` or `DIFFERENT`."""
    if first.support == second.support:
        return SAME
    return PART_SHARED if first.support & second.support else DIFFERENT


def mix(*parts: tuple[Fraction, Option]) -> Option:
    """Return the mixture of options with these probabilities."""
    outcomes = []
    for share, option in parts:
        outcomes += [(share * outcome.chance, outcome.length, outcome.coins) for outcome in option.outcomes]
    return Option.of(*outcomes)


def shift_option(chance: Fraction, coins: Sequence[float]) -> Option:
    """Return the option over the lengths 1 and 2 in which the longer one has this probability."""
    return Option.of((1 - chance, 1, coins[0]), (chance, 2, coins[1]))


@dataclass(frozen=True)
class Menu:
    """A decision between options."""

    options: tuple[Option, ...]

    def reversed(self) -> Menu:
        """Return the menu with its options in the opposite order."""
        return Menu(self.options[::-1])


class Menus:
    """A batch of B menus as tensors, with at most O options of at most J outcomes; padding has probability 0."""

    def __init__(self, chance: Tensor, length: Tensor, coins: Tensor) -> None:
        self.chance, self.length, self.coins = chance, length, coins
        """[B, O, J]"""
        self.exists = chance.sum(-1) > 0
        """[B, O] False for padding."""
        self.lengths, self.num_lengths = _distinct(torch.where(chance > 0, length, 0).flatten(1))
        """[B, K] the lengths of the menu, shortest first, padded with 0; [B] their number k."""
        here = (length.unsqueeze(-1) == self.lengths[:, None, None]) & (self.lengths > 0)[:, None, None]
        self.probability = (chance.unsqueeze(-1) * here).sum(-2)
        """[B, O, K] P(L = l) of each option."""
        self.gain = ((chance * coins).unsqueeze(-1) * here).sum(-2)
        """[B, O, K] P(L = l) · E[C | L = l] of each option."""
        self.supports = self.probability > 0
        """[B, O, K]"""
        possible = torch.where(self.supports, self.probability, 1)
        self.conditional_coins = torch.where(self.supports, self.gain / possible, 0)
        """[B, O, K] E[C | L = l] of each option; 0 for an impossible length."""
        best = torch.where(self.supports, self.conditional_coins, -torch.inf).amax(1)
        self.best = torch.where(best.isfinite(), best, 0)
        """[B, K] m(l), the largest E[C | L = l] of any option, which no policy exceeds."""
        both = self.exists.unsqueeze(-1) & self.exists.unsqueeze(-2)
        self.alike = (self.supports.unsqueeze(2) == self.supports.unsqueeze(1)).all(-1) & both
        """[B, O, O] True for pairs of options with the same support."""
        self.num_supports = (self.exists / self.alike.sum(-1).clamp_min(1)).sum(-1).round().long()
        """[B] the number of distinct supports."""

    @staticmethod
    def of(menus: Sequence[Menu]) -> Menus:
        """Return menus as tensors in double precision."""
        options = max(len(menu.options) for menu in menus)
        outcomes = max(len(option.outcomes) for menu in menus for option in menu.options)
        table = np.zeros((3, len(menus), options, outcomes))
        for b, menu in enumerate(menus):
            for o, option in enumerate(menu.options):
                for j, outcome in enumerate(option.outcomes):
                    table[:, b, o, j] = float(outcome.chance), outcome.length, outcome.coins
        chance, length, coins = torch.from_numpy(table)
        return Menus(chance, length.long(), coins)

    def __len__(self) -> int:
        return len(self.chance)


def _distinct(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct positive values of each row, smallest first and padded with 0, and their number."""
    ordered = values.sort(-1).values
    new = (ordered > torch.nn.functional.pad(ordered[:, :-1], (1, 0))) & (ordered > 0)
    number = new.sum(-1)
    width = int(number.max()) if len(number) else 0
    column = torch.where(new, new.cumsum(-1) - 1, width)
    table = ordered.new_zeros(len(values), width + 1).scatter(-1, column, torch.where(new, ordered, 0))
    return table[:, :width], number
