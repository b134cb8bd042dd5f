"""The commands that this project suggests: what to do next with a run, and the remedies in errors.

Each function returns commands that work for the run as printed; `tests/test_hints.py` executes them for every kind of
run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from yaml import YAMLError

from drest_torch.comparison.records import read_run
from drest_torch.config.command_lines import command_line
from drest_torch.config.reading import read_config
from drest_torch.config.stored import own_modules
from drest_torch.errors import UserError

CURVES = "curves.png"
MOST_RUNS = 100
"""The largest number of other runs among which a comparison is suggested."""


def resume(folder: Path) -> str:
    """Return the command that resumes a run."""
    return command_line("train", f"resume={folder}", *imports_of(folder))


def evaluate(folder: Path, *levels: str) -> str:
    """Return the command that evaluates a run on these levels, or on its own test levels or in its environment."""
    return command_line("evaluate", f"run={folder}", *levels, *imports_of(folder))


def compare(*folders: Path, out: Path | str = CURVES) -> str:
    """Return the command that compares runs or sweeps, and plots their learning curves."""
    return command_line("compare", *map(str, folders), f"out={out}")


def resume_language_model(folder: Path) -> str:
    """Return the command that resumes the run of a language model."""
    return command_line("language train", f"resume={folder}", *imports_of(folder))


def evaluate_language_model(folder: Path) -> str:
    """Return the command that evaluates the run of a language model on all suites."""
    return command_line("language evaluate", f"model={folder}", "suite=all", *imports_of(folder))


def after_training(folder: Path, levels: Sequence[str] | None) -> str:
    """Return suggested commands for a finished run: its evaluation with these arguments, and a comparison.

    ``levels`` is None if there are no levels to suggest.
    """
    lines = []
    if levels is not None:
        lines += ["Evaluate it:", f"  {evaluate(folder, *levels)}"]
    lines += ["Compare it with other runs:", f"  {compare(folder, *_newest_other(folder))}"]
    return "\n".join(lines)


def _newest_other(folder: Path) -> list[Path]:
    """Return the run beside this one that has been finished last, if there is one."""
    paths = [path for path in folder.parent.glob("*/summary.json") if path.parent.name != folder.name]
    with suppress(OSError):  # another process may delete runs
        paths.sort(key=os.path.getmtime, reverse=True)
    for path in paths[:MOST_RUNS]:
        with suppress(UserError):
            read_run(path.parent)
            return [path.parent]
    return []


def imports_of(folder: Path) -> list[str]:
    """Return the arguments of a command that import the user's modules in a run's configuration."""
    try:
        modules = sorted({module for _, module in own_modules(read_config(folder / "config.yaml"))})
    except (UserError, OSError, YAMLError, AttributeError, TypeError):
        return []  # the command will report the error
    if not modules:
        return []
    return [f"imports={','.join(modules)}"]
