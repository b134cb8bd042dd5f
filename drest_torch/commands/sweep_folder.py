"""The folder of a sweep: its runs, their failures, and the command that continues it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from drest_torch.config.command_lines import typed_line
from drest_torch.files import read_whole, write_json
from drest_torch.hints import CURVES, compare

COMBINATIONS = "combinations.jsonl"
"""A file in the folder of a sweep: the folder of each run, and the arguments that identify the run."""
FAILURE = "failure.json"
"""A file in the folder of a run that failed, with the reason."""
OUTSIDE = ("overwrite", "progress", "run_dir", "threads")
"""Keys of arguments that do not identify a run of a sweep."""
typed: list[str] = []
"""The arguments of the running command, as the user wrote them."""


def stopped(sweep: Path) -> str:
    """Return the lines at the end of a sweep that was stopped: the commands that show and continue it."""
    so_far = compare(sweep, out=sweep / CURVES)
    return f"The sweep stops here. Its runs so far: {so_far}\nContinue it: {continue_command(sweep)}"


def identity(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that identify a run of a sweep."""
    return tuple(word for word in overrides if word.lstrip("+").partition("=")[0] not in OUTSIDE)


def varying(arguments: Sequence[str], identities: Iterable[Sequence[str]]) -> list[str]:
    """Return the arguments in which a run differs from others, or all if there are no others."""
    common = set(arguments).intersection(*identities)
    return [word for word in arguments if word not in common] or [*arguments]


def combinations(sweep: Path) -> dict[tuple[str, ...], Path]:
    """Return the folder of each run of a sweep, by the arguments of the run."""
    folders = {}
    for line in _lines(sweep / COMBINATIONS):
        with suppress(ValueError, KeyError, TypeError):  # a line that was cut off
            record = json.loads(line)
            folders[tuple(record["arguments"])] = Path(os.path.normpath(sweep / record["run"]))
    return folders


def add_combination(sweep: Path, arguments: tuple[str, ...], run: Path) -> None:
    """Record the arguments and the folder of a run before it begins."""
    record = {"run": os.path.relpath(run, sweep), "arguments": arguments}
    _append(sweep / COMBINATIONS, json.dumps(record))


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return read_whole(path).decode(errors="replace").splitlines()


def _append(path: Path, line: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def record_failure(run: Path, reason: str, traceback: str) -> None:
    """Store why a run failed; the record is deleted when the run starts again."""
    write_json(run / FAILURE, {"reason": reason, "traceback": traceback})


def failures(sweep: Path) -> list[str]:
    """Return a sentence for each run of a sweep that failed."""
    sentences, runs = [], combinations(sweep)
    for arguments, run in runs.items():
        if (run / FAILURE).is_file():
            reason = json.loads(read_whole(run / FAILURE))["reason"]
            sentences.append(f"Failed: {' '.join(varying(arguments, runs))}: {reason} ({run})")
    return sentences


def continue_command(sweep: Path) -> str:
    """Return the command that continues the sweep of the running command."""
    words = [word for word in typed if not word.startswith("hydra.sweep.dir=")]
    return typed_line("train", *words, f"hydra.sweep.dir={sweep}")
