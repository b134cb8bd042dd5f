"""Messages in the terminal on the stages of a command before and after its progress lines.

This module imports nothing slow: the first line appears before torch is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

from drest_torch._version import __version__

_START = monotonic()
_PRINTS_ONLY = {"-h", "--help", "--hydra-help", "--version", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc"}
"""Arguments with which a command only prints information."""


def announce(arguments: Sequence[str]) -> None:
    """Print the first line of a command, unless it is quiet or a program reads its output."""
    progress = [word for word in arguments if word.startswith("progress=")]
    if progress[-1:] != ["progress=false"] and not _PRINTS_ONLY & {word.partition("=")[0] for word in arguments}:
        _print(f"drest_torch {__version__} · loading …")


def stage(text: str, *, enabled: bool = True) -> None:
    """Print the elapsed time and the current stage."""
    if enabled:
        _print(stamped(text))


def stamped(text: str) -> str:
    """Return the elapsed time and a text; further lines are indented."""
    elapsed = str(timedelta(seconds=int(monotonic() - _START)))
    return f"{elapsed}  {text}".replace("\n", "\n" + " " * (len(elapsed) + 2))


def _print(text: str) -> None:
    """Print to standard error if it is a terminal."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
