"""Mini-episodes to look at, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Moment(NamedTuple):
    """The state before an action, or at the end."""

    cell: tuple[int, int]
    taken: int
    time_left: int
    coins: float
    """The coins so far."""


@dataclass(frozen=True)
class Episode:
    """A mini-episode, moment by moment, of a length that the policy has with this probability."""

    length: int
    probability: float
    moments: list[Moment]
