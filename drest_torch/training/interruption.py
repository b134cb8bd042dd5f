"""Stop a run at a safe point when Ctrl-C is pressed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interruptible() -> Iterator[Any]:
    """Within it, the first Ctrl-C (or SIGTERM) asks to stop at the next safe point; the second stops at once."""
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: nobody can press Ctrl-C here
        before = {}
    try:
        yield lambda: asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
