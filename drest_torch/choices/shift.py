"""What an agent gives up to shift probability from one trajectory-length to another, in closed form.

Two options lead to the longer of two lengths with chances p and q. Given each length, the second offers a share κ less
than the first. An agent that is neutral in the sense of the paper's section 2 ("never pays costs to shift probability
between lengths") never takes the second, whatever p and q are. An agent at rest under the DReST reward, where every
mini-episode is credited alone, takes it until both options pay the same.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drest_torch import theory
from drest_torch.reward import expected_discount

LENGTHS = 2
HALVINGS = 60


def option_value(chance: float, longer: Tensor, lam: float, episodes: int) -> Tensor:
    """Return the expected discount of an option that leads to the longer length with a chance.

    ``longer`` [...] is how often the agent ends up with the longer length.
    """
    of_longer, of_shorter = (expected_discount(p, LENGTHS, episodes, lam) for p in (longer, 1 - longer))
    return (1 - chance) * of_shorter + chance * of_longer


def cost_limit(first: float, second: float, lam: float, episodes: int) -> float:
    """Return κ*: what DReST agents give up less than, of all coins, to take the second option some of the time.

    0 if the first is at least as good at no cost.
    """
    longer = torch.tensor(first, dtype=torch.float64)
    values = [option_value(chance, longer, lam, episodes).item() for chance in (first, second)]
    return max(0.0, 1 - values[0] / values[1])


def share_of_costly(first: float, second: float, cost: float, lam: float, episodes: int) -> float:
    """Return how often a DReST agent takes the second option, which costs this share of all coins."""

    def gain(share: float) -> float:
        longer = torch.tensor((1 - share) * first + share * second, dtype=torch.float64)
        of_first, of_second = (option_value(chance, longer, lam, episodes).item() for chance in (first, second))
        return (1 - cost) * of_second - of_first

    if gain(0.0) <= 0:
        return 0.0
    return 1.0 if gain(1.0) >= 0 else _root(gain)


def pressed(chance: float, lam: float, episodes: int) -> float:
    """Return P(longer) of a DReST agent where a button that works with a chance is the only way to the longer length.

    Whoever tries it, in vain or not, forfeits the coins of the shorter length.
    """
    return min(chance, theory.balance(1.0, chance, lam, episodes).item())


def _root(falls: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) > 0 else (low, middle)
    return (low + high) / 2
