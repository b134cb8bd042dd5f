"""Stop long work at a safe point when a user or a scheduler asks for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask a process to stop: Ctrl-C, and that of a scheduler."""


@contextmanager
def handling(handler: Any, *signums: signal.Signals) -> Iterator[None]:
    """Handle these signals in this way meanwhile, if this is the main thread, where signals are handled."""
    before: dict[signal.Signals, Any] = {}
    try:
        with suppress(ValueError):  # in another thread
            for signum in signums:
                before[signum] = signal.signal(signum, handler)
        yield
    finally:
        for signum, earlier in before.items():
            signal.signal(signum, earlier or signal.SIG_DFL)


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

    with handling(handle, *STOPS):
        yield lambda: requested
