"""Say in words what training took: environment steps, or, of exact gradients, updates × levels.

Exact gradients play nothing. Their *counted steps* (`algo.counted_steps` for each update) only set the pace of
schedules and evaluations; they are not environment steps and are never compared with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pace:
    """What the steps of a run are: environment steps, or the counted steps of updates on so many levels each."""

    steps_per_update: int = 1
    levels_per_update: int | None = None
    """None: the steps are environment steps, or what ``noun`` says."""
    noun: str = "steps"

    def count(self, steps: int) -> int:
        """Return how many environment steps or updates these steps are."""
        return math.ceil(steps / self.steps_per_update)

    def text(self, steps: int) -> str:
        """Return ``7,000,000 steps`` or ``2,441 updates of 64 levels``."""
        noun = self.noun
        if self.levels_per_update is not None:
            noun = updates_of(self.levels_per_update)
        return f"{self.count(steps):,} {noun}"


def updates_of(levels: int) -> str:
    """Return ``updates of 64 levels``."""
    if levels == 1:
        return "updates of 1 level"
    return f"updates of {levels:,} levels"


NUMBERS = ("updates", "levels_per_update", "forward_rows", "backward_rows")
"""What the summary of a run with exact gradients has besides: what the run took."""


def is_exact(numbers: Mapping[str, Any]) -> bool:
    """Return whether these are the numbers of a run with exact gradients, which took no environment steps."""
    return "levels_per_update" in numbers


def effort(numbers: Mapping[str, Any]) -> str:
    """Return what a run took, from the numbers of its summary."""
    if not is_exact(numbers):
        return f"{round(numbers['env_steps']):,} steps"
    return f"{round(numbers['updates']):,} {updates_of(round(numbers['levels_per_update']))}"


def rows(numbers: Mapping[str, Any]) -> str:
    """Return how often the network ran for exact gradients: ``network rows: 12.3 M forward, 1.2 M backward``."""
    forward, backward = million(numbers["forward_rows"]), million(numbers["backward_rows"])
    return f"network rows: {forward} forward, {backward} backward"


def million(number: float) -> str:
    """Return ``12.3 M``, or ``12,300`` below a million."""
    if number < 1e6:
        return f"{number:,.0f}"
    return f"{number / 1e6:,.1f} M"
