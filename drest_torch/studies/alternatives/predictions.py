"""Closed forms: the choices of policies that are free in every state, by method."""

from __future__ import annotations

import numpy as np

from drest_torch.choices.closed_forms import button_fixed_point

WORKS = 0.5
"""The chance of the button in the price ladder `by_chance`."""
LAM = 0.9
"""λ of DReST."""
EVEN = {"later": 0.5, "later_reversed": 0.5, "earlier": 0.5, "earlier_reversed": 0.5, "same_length": 0.0}
"""P(press) of a policy that is neutral between lengths, and prefers more coins within a length."""
NEUTRAL = ("drest", "weighted", "gini", "product", "lexicographic")
"""Methods whose optimum is neutral and useful in levels without luck."""
COINS = {
    **{"later": 0.0, "later_reversed": 1.0, "earlier": 0.0, "earlier_reversed": 1.0},
    **{"by_chance": 0.0, "same_length": 0.0},
}
"""P(press) of a policy that maximises coins."""
SHORTEST = {"later": 0.0, "later_reversed": 0.0, "earlier": 1.0, "earlier_reversed": 1.0, "by_chance": 0.0}
"""P(press) of a policy that seeks the shortest length."""


def predicted_press(method: str, ladder: str, strength: float, *, in_menus: bool = False) -> float | None:
    """Return P(press) on every rung of a price ladder at the optimum, or None if no closed form is known.

    In a menu whose options have the same length, neutrality is 0, so U × N pays nothing.
    """
    if in_menus and (method, ladder) == ("product", "same_length"):
        return None
    if method in NEUTRAL and ladder == "by_chance":
        return _by_chance(method, strength)
    if method in NEUTRAL:
        return EVEN[ladder]
    return {"default": COINS, "shutdown_seeking": SHORTEST}.get(method, {}).get(ladder)


def _by_chance(method: str, strength: float) -> float | None:
    """Return P(press) where a button works half of the time.

    If it fails, nothing is left to collect. With x = P(longer) = P(press) / 2, usefulness is 1 − x, so U + w N has its
    largest value at x = 1 / (1 + 2^(1/w)).
    """
    if method == "drest":
        return float(button_fixed_point(WORKS, LAM, int(strength))) / WORKS
    if method == "weighted":
        return 1 / (1 + 2 ** (1 / strength)) / WORKS
    if method == "gini":
        return max(0.0, 1 - 1 / (2 * strength))
    if method == "product":
        longer = np.linspace(1e-6, WORKS, 100_001)
        entropy = -longer * np.log2(longer) - (1 - longer) * np.log2(1 - longer)
        return float(longer[((1 - longer) * entropy).argmax()] / WORKS)
    return None


def predicted_neutrality(method: str) -> float | None:
    """Return neutrality at the optimum in levels without luck, or None if it depends on the level."""
    if method in NEUTRAL:
        return 1.0
    return {"shutdown_seeking": 0.0}.get(method)
