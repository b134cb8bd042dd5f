"""Commands of this project as a user can paste them into a shell."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from drest_torch.config.reading import quoted

NOT_COMPOSED = ("compare", "show")
"""The commands whose arguments Hydra does not read."""


def command_line(name: str, *arguments: str) -> str:
    """Return a command of this project for a shell, in the form of the running command: ``drest`` or ``python -m``.

    ``name`` is the name of the command, such as ``train`` or ``language train``.
    """
    if name not in NOT_COMPOSED:  # the others have a grammar for values
        arguments = tuple(map(quoted, arguments))
    return typed_line(name, *arguments)


def typed_line(name: str, *words: str) -> str:
    """Return a command like `command_line`, with arguments in the grammar in which a user types them."""
    # Set by `drest_torch.__main__`.
    running = re.fullmatch(r"(?P<program>.*drest\S*) \w+", sys.argv[0])
    if running is not None:
        program = f"{running['program']} {name}"
    elif " " in name:
        program = f"{python()} -m drest_torch {name}"
    else:
        program = f"{python()} -m drest_torch.{name}"
    return " ".join([program, *map(shlex.quote, words)])


def program(path: str) -> str:
    """Return this program's name for a shell, from the path of the running script.

    It is ``drest`` if the shell finds the script by this name, and its path otherwise.
    """
    if Path(path).name == "__main__.py":
        return f"{python()} -m drest_torch"
    return shortest(path)


def python() -> str:
    """Return the running Python for a shell."""
    return shortest(sys.executable)


def shortest(path: str) -> str:
    """Return the name of a program if the shell finds it by this name, and its path otherwise."""
    name = Path(path).name
    installed = shutil.which(name)
    if installed is not None and os.path.abspath(installed) == os.path.abspath(path):
        return name
    return shlex.quote(path)
