"""Stop long work at a safe point when a user or a scheduler asks for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interruptible() -> Iterator[Any]:
    """Yield a function that returns whether the run should stop at the next safe point.

    The first Ctrl-C (or SIGTERM) requests the stop; the second stops at once.
    """
    requested = False

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    try:
        before = {signum: signal.signal(signum, handle) for signum in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread, where signals are handled
        before = {}
    try:
        yield lambda: requested
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
