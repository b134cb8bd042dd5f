"""A run of a study: its description, its result, its failure. All three are plain values that JSON can hold.

Nothing here imports torch: a worker process starts quickly, and its runner imports what it needs.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drest_torch.errors import UserError

FORMAT = 2
"""Part of every digest: with another number no earlier result is taken for a run's. (1: before `drest_torch.jobs`.)"""
_DIGITS = 16


class JobError(UserError):
    """A run that cannot be described or done now, or a result that cannot be stored; the message says why."""


@dataclass(frozen=True)
class Job:
    """One run of a study.

    ``runner`` is "package.module:function", a function ``(spec, folder) -> Result`` that any process can
    import. Its result depends on ``spec`` alone, seeds included, and not on which runs came before it in the
    same process. ``folder`` is the run's own: files that the runner keeps there are still there if the run is
    killed and started again. A runner that is asked to stop, by SIGTERM, may save first and then raises
    KeyboardInterrupt.

    ``spec`` holds JSON values, and 1 is another spec than 1.0. Jobs with the same runner and spec are the same
    run, whatever their names.
    """

    name: str
    runner: str
    spec: dict[str, Any] = field(hash=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise JobError("a run without a name; expected a readable one, such as 'tabular/example-moves'")
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", self.runner):
            raise JobError(f"run '{self.name}': runner '{self.runner}'; expected 'package.module:function'")
        if not isinstance(self.spec, dict):
            raise JobError(f"run '{self.name}': its spec is of type {_kind(self.spec)}; expected a dict")
        object.__setattr__(self, "spec", _plain(self.spec, f"run '{self.name}': spec"))

    def digest(self) -> str:
        """Return what identifies the run, in every process and on every machine."""
        text = f"{FORMAT}\n{self.runner}\n{canonical(self.spec)}"
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run: JSON values, among which NaN and infinity are numbers, and arrays of any shape."""

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def checked(self) -> Result:
        """Return the result as it will be read from the store; refuse one that cannot be stored."""
        if not isinstance(self.numbers, dict) or not isinstance(self.arrays, dict):
            raise JobError(
                f"a result's numbers are of type {_kind(self.numbers)}, its arrays of type {_kind(self.arrays)}; "
                "expected two dicts"
            )
        for name, array in self.arrays.items():
            if not isinstance(name, str) or not isinstance(array, np.ndarray) or array.dtype.hasobject:
                what = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else f"of type {_kind(array)}"
                raise JobError(f"arrays[{name!r}] is {what}; expected a numpy array of numbers, with a name")
        arrays = {name: np.array(array, subok=False) for name, array in self.arrays.items()}
        return Result(_plain(self.numbers, "numbers"), arrays)


@dataclass(frozen=True)
class Failure:
    """A run that has no result, and why: the reason in one line, and all that is known."""

    job: Job
    reason: str
    traceback: str


def canonical(value: Any) -> str:
    """Return the one JSON text of a plain value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _plain(value: Any, what: str) -> Any:
    """Return a copy as JSON gives it back; refuse what JSON cannot hold, or would change silently."""
    if value is None or isinstance(value, bool | int | float | str):
        return json.loads(json.dumps(value))  # also of a subclass, such as numpy's float64
    if isinstance(value, list | tuple):
        return [_plain(item, f"{what}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise JobError(f"{what} has the key {key!r}; expected a str")
        return {str(key): _plain(item, f"{what}[{key!r}]") for key, item in value.items()}
    raise JobError(
        f"{what} is of type {_kind(value)}; expected a number, a str, a bool, None, a list or a dict of them"
    )


def _kind(value: object) -> str:
    return type(value).__name__
