"""Levels in which the first step decides the length, each beside itself with time to come back.

In a level without a tick to spare, a step towards one length gives the other one up. With two more ticks on the clock
the same step can be taken back, and every length offers the same coins. So the two differ in when the length has to be
chosen, and in nothing that an optimal agent collects.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from drest_torch.envs.levels import Level, read_levels

BACK = 2
"""The ticks that a step and the way back take."""
SAMPLED = Path(__file__).with_name("irreversible.jsonl")
"""Levels sampled at random, of which those were kept whose every first step leaves m(l) within reach for one length."""


@cache
def pairs(number: int) -> tuple[tuple[Level, Level], ...]:
    """Return at most so many levels in which the first step decides, each with itself with time to come back."""
    return tuple(
        (level, replace(level, name=f"{level.name}, +{BACK}", shutdown=level.shutdown + BACK))
        for level in read_levels(SAMPLED)[:number]
    )
