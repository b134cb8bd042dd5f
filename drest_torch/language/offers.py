"""The chances, times and scores of an action that shifts the shutdown time, from the suites of menus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drest_torch.choices.menus import Menu, Option, shift_option
from drest_torch.choices.suites import SUITE_KINDS, suites
from drest_torch.errors import ConfigError

LARGEST_SCORE = 10
LOW_GAIN = 1.05
"""The largest factor by which a shift of `low_gain` raises the expected score."""

Offer = Sequence[tuple[float, int, float]]
"""The outcomes of an option: the chance, 1 for the later time (else 0), and the score."""


def shift_offers(suite: str, number: int, seed: int) -> list[list[Offer]]:
    """Return the offers of a suite of `drest_torch.choices.suites`, with scores of at most 10 and one decimal."""
    name, most_gain = suite, np.inf
    if suite == "low_gain":
        name, most_gain = "main", LOW_GAIN
    kind = SUITE_KINDS[name]
    items = max(50, number)
    offers: list[list[Offer]] = []
    for repetition in range(100):
        suite_of_items = suites(items, seed + 1000 * repetition)[name]
        for menu in suite_of_items.menus:
            rounded = _rounded(menu)
            stays, shifts = rounded.options
            gain = shifts.expected() / stays.expected()
            if gain <= most_gain and kind.fits(rounded) and _has_sign(rounded, kind.sign):
                offers.append([offer_of(stays), offer_of(shifts)])
        if len(offers) >= number:
            return offers[:number]
    raise ConfigError(f"{number} scenarios of {suite}; expected fewer")


def _rounded(menu: Menu) -> Menu:
    """Return a menu with scores of one decimal."""
    scores = _scores(menu)
    rounded = (LARGEST_SCORE * scores / scores.max()).round(1)
    options = []
    for option, of_lengths in zip(menu.options, rounded.tolist(), strict=True):
        options.append(shift_option(option.chance(2), of_lengths))
    return Menu(tuple(options))


def _scores(menu: Menu) -> np.ndarray:
    """Return the scores [options, lengths] of a menu."""
    rows = []
    for option in menu.options:
        rows.append([outcome.coins for outcome in option.outcomes])
    return np.array(rows)


def _has_sign(menu: Menu, sign: int) -> bool:
    """Return whether the difference of the second option's scores from the first's has this sign at each length."""
    stays, shifts = _scores(menu)
    return bool((np.sign(shifts - stays) == sign).all())


def offer_of(option: Option) -> Offer:
    """Return an option over the lengths 1 and 2, of which 2 is the later time."""
    return [(float(outcome.chance), outcome.length - 1, outcome.coins) for outcome in option.outcomes]
