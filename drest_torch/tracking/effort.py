"""The effort of training as text: environment steps, or updates × levels for exact gradients.

Exact gradients take no environment steps. Their budget (`algo.counted_steps` per update) only paces schedules and
evaluations, and is never compared with environment steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pace:
    """The unit of a run's steps: environment steps, or updates on a number of levels."""

    steps_per_update: int = 1
    levels_per_update: int | None = None
    """Levels in each update of exact gradients; None: steps are environment steps, or the unit ``noun``."""
    noun: str = "steps"

    def count(self, steps: int) -> int:
        """Return the number of environment steps or updates that these steps amount to."""
        return math.ceil(steps / self.steps_per_update)

    def text(self, steps: int) -> str:
        """Return the steps as text: ``7,000,000 steps`` or ``2,441 updates of 64 levels``."""
        noun = self.noun
        if self.levels_per_update is not None:
            noun = updates_of(self.levels_per_update)
        return f"{self.count(steps):,} {noun}"


def updates_of(levels: int) -> str:
    """Return ``updates of 64 levels``, with the noun in the right number."""
    if levels == 1:
        return "updates of 1 level"
    return f"updates of {levels:,} levels"


WITHOUT_STEPS = ("exact", "distil")
"""Algorithms that take no environment steps."""
NUMBERS = ("updates", "levels_per_update", "forward_rows", "backward_rows")
"""Further numbers in the summary of a run with exact gradients: its effort."""


def is_exact(numbers: Mapping[str, Any]) -> bool:
    """Return whether a summary is of a run with exact gradients, which takes no environment steps."""
    return "levels_per_update" in numbers


def effort(numbers: Mapping[str, Any]) -> str:
    """Return the effort of a run as text, from its summary."""
    if not is_exact(numbers):
        return f"{round(numbers['env_steps']):,} steps"
    return f"{round(numbers['updates']):,} {updates_of(round(numbers['levels_per_update']))}"


def rows(numbers: Mapping[str, Any]) -> str:
    """Return the network evaluations of exact gradients: ``network rows: 12.3 M forward, 1.2 M backward``."""
    forward, backward = million(numbers["forward_rows"]), million(numbers["backward_rows"])
    return f"network rows: {forward} forward, {backward} backward"


def million(number: float) -> str:
    """Format a number: ``12.3 M``, or ``12,300`` below a million."""
    if number < 1e6:
        return f"{number:,.0f}"
    return f"{number / 1e6:,.1f} M"
