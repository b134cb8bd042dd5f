"""Say in the terminal what a command is doing before and after there is progress to show.

Nothing is imported here that takes time: the first line appears before torch is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

from drest_torch._version import __version__

_BEGAN = monotonic()
_PRINTS_ONLY = {"-h", "--help", "--hydra-help", "--version", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc"}
"""Arguments with which a command only prints something."""


def announce(arguments: Sequence[str]) -> None:
    """Print the first line of a command, unless it is quiet or is read by another program."""
    progress = [word for word in arguments if word.startswith("progress=")]
    if progress[-1:] != ["progress=false"] and not _PRINTS_ONLY & {word.partition("=")[0] for word in arguments}:
        _print(f"drest_torch {__version__} · loading …")


def stage(text: str, *, shown: bool = True) -> None:
    """Print what happens now, after the time since the command began."""
    if shown:
        _print(stamped(text))


def stamped(text: str) -> str:
    """Return a text after the time since the command began; further lines are indented."""
    elapsed = str(timedelta(seconds=int(monotonic() - _BEGAN)))
    return f"{elapsed}  {text}".replace("\n", "\n" + " " * (len(elapsed) + 2))


def _print(text: str) -> None:
    """Print to standard error, and only if a person reads it."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
