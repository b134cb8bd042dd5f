"""Errors that a user can correct: every command prints them as one sentence, without a traceback."""

from __future__ import annotations

from unicodedata import category


def shown(text: str) -> str:
    """Return a text as it can be printed: a terminal shows the control characters in it and does not obey them."""
    return "".join(repr(each)[1:-1] if category(each) in ("Cc", "Cf", "Cs") and each != "\n" else each for each in text)


class UserError(ValueError):
    """An error that the user can correct; the message names the place and the remedy."""


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
