"""Interruption of long work at safe points, by a user or a scheduler."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM)
"""The signals that request a stop: SIGINT of Ctrl-C, and SIGTERM of a scheduler."""


@contextmanager
def handling(handler: Any, *signums: signal.Signals) -> Iterator[None]:
    """Install a signal handler within the context; do nothing outside the main thread, which alone receives signals."""
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
    """Yield a function that returns True if the run should stop at the next safe point.

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
