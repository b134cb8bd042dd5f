"""Errors that a user can correct: every command prints them as one sentence, without a traceback."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unicodedata import category

OWN = __name__.partition(".")[0]
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of characters that control, or part lines."""
LIBRARIES = frozenset({"torch", "torchrl", "tensordict", "numpy", "gymnasium", "wandb", *sys.stdlib_module_names})


def shown(text: str) -> str:
    """Return a text as it can be printed: a terminal shows the control characters in it and does not obey them."""
    return "".join(repr(each)[1:-1] if category(each) in HIDDEN and each != "\n" else each for each in text)


class UserError(ValueError):
    """An error that the user can correct; the message names the place and the remedy."""

    def __init__(self, message: object) -> None:
        super().__init__(shown(str(message)))  # it may quote a file


class FileError(UserError):
    """A file that cannot be read or written."""


class ConfigError(UserError):
    """A configuration that cannot be run; the message says in one sentence what to change."""


class CheckpointError(UserError):
    """A checkpoint or run folder that cannot be read."""


class StudyError(UserError):
    """A study that cannot be found or reported; the message names its module, file or key."""


class LevelError(UserError):
    """A level that breaks a rule of the format; the message says where and what was expected."""


@contextmanager
def blaming(what: str, *, wholly: bool = True) -> Iterator[None]:
    """Say in one sentence that code of the user's own has failed, which ``what`` names, or has ended the program.

    All that fails here is the user's, or, if not ``wholly``, what fails outside this package.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        frames = list(traceback.walk_tb(error.__traceback__))[1:]  # without this one
        modules = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in frames]
        theirs = [index for index, module in enumerate(modules) if module not in LIBRARIES]
        is_own = bool(theirs) and modules[theirs[-1]] == OWN
        if not wholly and not isinstance(error, SystemExit) and (is_own or not theirs):
            raise
        text, place = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":"), ""
        if theirs and not is_own:
            frame, line = frames[theirs[-1]]
            place = f" ({Path(frame.f_code.co_filename).name}, line {line})"
        raise UserError(f"{what} failed with {text}{place}") from error
