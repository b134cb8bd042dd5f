"""Mini-episodes as sequences of moments, for animations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Moment(NamedTuple):
    """The state before an action, or at the end of the mini-episode."""

    cell: tuple[int, int]
    taken: int
    time_left: int
    coins: float
    """The coins collected so far."""


@dataclass(frozen=True)
class Episode:
    """A mini-episode as a sequence of moments, with the probability of its length under the policy."""

    length: int
    probability: float
    moments: list[Moment]
