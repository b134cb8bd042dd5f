"""The rules of a shutdown timer, as functions of numbers or of tensors of them.

The granted delays determine the length of a mini-episode. `ShutdownTimer` (TorchRL) and `ShutdownTimerWrapper`
(Gymnasium) implement these rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

MOST_STEPS = 50_000
"""The maximum number of steps of a mini-episode: a run keeps every step of a batch in memory."""


@dataclass(frozen=True)
class Timer:
    """A shutdown time, the possible delays, and the window in which a delay can be requested.

    ``delays`` is the number of delays so far, ``since`` the number of steps since the start or the last delay.
    """

    lengths: tuple[int, ...]
    """The lengths of a mini-episode in steps, by the number of delays."""
    window: int | None
    """The number of steps in which a delay can be requested; None: all steps until shutdown."""

    @classmethod
    def from_delays(cls, base: int, delays: Sequence[int], window: int | None) -> Timer:
        """Return the timer of a first shutdown time and the delays in their order."""
        return cls(tuple(accumulate(map(int, delays), initial=int(base))), window)

    @property
    def size(self) -> int:
        """The number of entries of the timer's observation."""
        return len(self.lengths) + 3

    def is_open(self, delays: Any, since: Any) -> Any:
        """Return whether a delay can be requested."""
        left = delays < len(self.lengths) - 1
        return left if self.window is None else left & (since < self.window)

    def after_request(self, delays: Any, since: Any, granted: Any) -> tuple[Any, Any]:
        """Return the number of delays and the steps since the last one, after a step in which a delay was granted or
        not."""
        return delays + granted, (since + 1) * (granted == 0)

    def observation(self, left: Any, delays: Any, since: Any, waits: Any, numbers: Any) -> list[Any]:
        """Return the parts of the timer's observation, each between 0 and 1; ``numbers`` are 0, 1, … to the last delay.

        The parts are the time left as a share of the longest length, the number of delays (one-hot), whether a delay
        can be requested, and whether the environment has ended and waits for shutdown.
        """
        return [left / self.lengths[-1], delays == numbers, self.is_open(delays, since), waits]
