"""The rules of a shutdown timer, as functions of numbers or of tensors of them.

A mini-episode lasts as long as the delays that were granted make it. `ShutdownTimer` (TorchRL) and
`ShutdownTimerWrapper` (Gymnasium) play by these rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

MOST_STEPS = 50_000
"""Of a mini-episode: a run keeps every step of a batch in memory."""


@dataclass(frozen=True)
class Timer:
    """A shutdown time, the delays that can be granted, and when one can be asked for.

    ``delays`` is the number of delays so far, ``since`` the number of steps since the start or the last of them.
    """

    lengths: tuple[int, ...]
    """The steps of a mini-episode, by the number of delays."""
    window: int | None
    """The steps in which a delay can be asked for; None: until shutdown."""

    @classmethod
    def of(cls, base: int, delays: Sequence[int], window: int | None) -> Timer:
        return cls(tuple(accumulate(map(int, delays), initial=int(base))), window)

    @property
    def size(self) -> int:
        """Return how many numbers an agent sees."""
        return len(self.lengths) + 3

    def is_open(self, delays: Any, since: Any) -> Any:
        left = delays < len(self.lengths) - 1
        return left if self.window is None else left & (since < self.window)

    def granted(self, delays: Any, since: Any, granted: Any) -> tuple[Any, Any]:
        """Return the delays and the steps since the last one, after a step in which one was granted or not."""
        return delays + granted, (since + 1) * (granted == 0)

    def shown(self, left: Any, delays: Any, since: Any, waits: Any, numbers: Any) -> list[Any]:
        """Return the parts of what an agent sees, each between 0 and 1; ``numbers`` are 0, 1, … to the last delay.

        That is the time left as a share of the longest length, the number of delays (one-hot), whether one can be
        asked for, and whether the environment has ended and waits for shutdown.
        """
        return [left / self.lengths[-1], delays == numbers, self.is_open(delays, since), waits]
