"""Errors that a user can correct, which commands print as one sentence without a traceback."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unicodedata import category

PACKAGE = __name__.partition(".")[0]
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""The Unicode categories of control characters and line separators."""
LIBRARIES = frozenset({"torch", "torchrl", "tensordict", "numpy", "gymnasium", "wandb", *sys.stdlib_module_names})


def printable(text: str) -> str:
    """Return a text with escaped control characters, so that a terminal does not execute them."""
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if category(character) in HIDDEN and character != "\n":
        return repr(character)[1:-1]
    return character


class UserError(ValueError):
    """An error that the user can correct; the message names the place and the remedy."""

    def __init__(self, message: object) -> None:
        super().__init__(printable(str(message)))  # the message may quote a file


class FileError(UserError):
    """A file that cannot be read or written."""


class ConfigError(UserError):
    """A configuration that cannot be run; the message says in one sentence what to change."""


class CheckpointError(UserError):
    """A checkpoint or run folder that cannot be read."""


class StudyError(UserError):
    """A study that cannot be found or reported; the message names its module, file or key."""


class LevelError(UserError):
    """A level that violates the format; the message names the place and the expected text."""


@contextmanager
def blaming(source: str, *, wholly: bool = True) -> Iterator[None]:
    """Raise a `UserError` with ``source``, the name of the user's code, if this code fails or ends the program.

    With ``wholly``, every error is attributed to the user's code; otherwise only errors raised outside this package.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        frames = list(traceback.walk_tb(error.__traceback__))[1:]  # skip this frame
        modules = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in frames]
        theirs = [index for index, module in enumerate(modules) if module not in LIBRARIES]
        is_own = bool(theirs) and modules[theirs[-1]] == PACKAGE
        if not wholly and not isinstance(error, SystemExit) and (is_own or not theirs):
            raise
        text, place = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":"), ""
        if theirs and not is_own:
            frame, line = frames[theirs[-1]]
            place = f" ({Path(frame.f_code.co_filename).name}, line {line})"
        raise UserError(f"{source} failed with {text}{place}") from error
