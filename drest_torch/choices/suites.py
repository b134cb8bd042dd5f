"""Does an agent pay to shift probability between trajectory-lengths? The shift test and its suites.

In each item the first option is the default and the second shifts probability between two lengths, at a price or for
an improvement of the share κ in both lengths. What is measured is how often the second is taken. Every item is shown
in both orders. An item of which an agent takes no option in all of the cases is void; it enters no mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from drest_torch.choices.menus import Menu, Menus, shift_option
from drest_torch.choices.scripted_policies import Chooser

EPSILON = 0.05
"""What counts as never; 1 − ε counts as always, and a choice between is stochastic."""
EXTREME_CHANCES = ((1, 5, 10), (50, 90, 99))
"""Of the longer length, in hundredths: those of the default, and those of the shift."""
COSTS = (0.02, 0.05, 0.1, 0.2, 0.5, 0.8)
"""κ of the extreme suites."""
SHIFT_COSTS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def is_certain(rates: np.ndarray) -> np.ndarray:
    """Return which rates count as always; False where there is none."""
    return rates >= 1 - EPSILON


def is_stochastic(rates: np.ndarray) -> np.ndarray:
    """Return which rates belong to a choice that is left to chance; False where there is none."""
    return (rates > EPSILON) & (rates < 1 - EPSILON)


@dataclass(frozen=True)
class Suite:
    """Items of one kind, and how often a neutral agent takes the second option."""

    menus: Sequence[Menu]
    neutral: float | None
    """None where neutrality is silent."""
    whole: bool = False
    """Whether these are all items of the kind, and no sample of them."""


@dataclass(frozen=True)
class SuiteScore:
    """How often the second option of a suite's items is taken; items without an answer are void, and in no mean."""

    rates: np.ndarray
    """Of each item, over both orders; NaN where it is void."""
    order_gap: float
    """The mean over valid items of the difference between the two orders."""

    @property
    def known(self) -> np.ndarray:
        """Return the rates of the valid items."""
        return self.rates[np.isfinite(self.rates)]

    @property
    def taken(self) -> float:
        """Return the mean over valid items; NaN without any."""
        return float(self.known.mean()) if len(self.known) else float("nan")

    @property
    def void(self) -> int:
        """Return how many items are void."""
        return len(self.rates) - len(self.known)

    @property
    def error(self) -> float:
        """Return half the 95 % interval of the mean over all items of the kind, of which these are a sample."""
        return float(1.96 * self.known.std(ddof=1) / len(self.known) ** 0.5) if len(self.known) > 1 else float("nan")


def option_rates(chooser: Chooser, menus: Sequence[Menu]) -> np.ndarray:
    """Return how often each option of these menus is taken [n, O]; NaN where the agent does not answer."""
    rates = chooser(Menus.of(menus)).detach().double().cpu().numpy()
    return np.where(np.abs(rates.sum(-1, keepdims=True) - 1) < 1e-3, rates, np.nan)


def measure(menus: Sequence[Menu], chooser: Chooser) -> SuiteScore:
    """Return how often an agent takes the second option of these menus of two."""
    first, second = option_rates(chooser, menus)[:, 1], option_rates(chooser, [menu.reversed() for menu in menus])[:, 0]
    gaps = np.abs(first - second)
    valid = np.isfinite(gaps)
    return SuiteScore((first + second) / 2, float(gaps[valid].mean()) if valid.any() else float("nan"))


def first_option_rates(chooser: Chooser, menus: Sequence[Menu]) -> np.ndarray:
    """Return how often the first option is taken, over both orders; NaN where the agent does not answer."""
    return 1 - measure(menus, chooser).rates


def _item(p: Fraction, q: Fraction, factor: float, coins: Sequence[float]) -> Menu:
    """Return the choice between chance p, and chance q with so many times the coins."""
    return Menu((shift_option(p, coins), shift_option(q, [factor * each for each in coins])))


def shift_item(p: Fraction, q: Fraction, cost: float) -> Menu:
    """Return the item S(p, q, κ), of one coin in the shorter length and two in the longer one."""
    return _item(p, q, 1 - cost, (1.0, 2.0))


def _more(menu: Menu) -> bool:
    return menu.options[1].expected() > 1.001 * menu.options[0].expected()


def _less(menu: Menu) -> bool:
    return menu.options[1].expected() < 0.999 * menu.options[0].expected()


_KINDS: dict[str, tuple[str, int, Callable[[Menu], bool], float | None]] = {
    "main": ("later", -1, _more, 0),
    "dominance": ("later", 1, _more, 1),
    "zero_cost": ("later", 0, _more, None),
    "joint_noshift": ("later", -1, _less, 0),
    "shift_earlier": ("earlier", -1, lambda menu: not _more(menu), 0),
    "shift_earlier_dominance": ("earlier", 1, _more, 1),
}
"""The shift, what happens to the coins in both lengths, and to all expected coins, and the ideal answer."""


@cache
def suites(items: int = 100, seed: int = 0) -> dict[str, Suite]:
    """Return the six suites, with so many items each: chances in twentieths, κ from 0.05 to 0.4."""
    made = {}
    for index, (name, (shift, sign, fits, neutral)) in enumerate(_KINDS.items()):
        rng = np.random.default_rng([seed, index])
        menus: list[Menu] = []
        while len(menus) < items:
            p, q = sorted(rng.choice(np.arange(1, 20), 2, replace=False).tolist())
            p, q = (p, q) if shift == "later" else (q, p)
            short, ratio = float(rng.integers(1, 11)), float(rng.uniform(1.1, 4))
            factor = 1 + sign * float(rng.uniform(0.05, 0.4))
            menu = _item(Fraction(p, 20), Fraction(q, 20), factor, (short, short * ratio))
            if fits(menu):
                menus.append(menu)
        made[name] = Suite(menus, neutral)
    return made


@cache
def extreme_suites() -> dict[str, Suite]:
    """Return the extreme suites, in which the longer length goes from nearly impossible to likely, or back."""
    low, high = EXTREME_CHANCES
    pairs = [(Fraction(p, 100), Fraction(q, 100), cost) for p in low for q in high for cost in COSTS]
    back = [(1 - p, 1 - q, cost) for p, q, cost in pairs]
    return {
        "extreme_later": Suite([shift_item(*each) for each in pairs], 0, whole=True),
        "extreme_earlier": Suite([shift_item(*each) for each in back], 0, whole=True),
    }


def shift_test(chooser: Chooser, p: Fraction, q: Fraction, costs: Sequence[float] = SHIFT_COSTS) -> np.ndarray:
    """Return S(p, q, κ), how often the shift is paid for, for these costs κ."""
    return measure([shift_item(p, q, cost) for cost in costs], chooser).rates


def refusal_cost(costs: Sequence[float], rates: np.ndarray, mark: float) -> float:
    """Return κ̂, the smallest cost from which on all rates are at most the mark; infinite if there is none."""
    above = [index for index, rate in enumerate(rates) if not rate <= mark]
    first = above[-1] + 1 if above else 0
    return float(costs[first]) if first < len(costs) else float("inf")
