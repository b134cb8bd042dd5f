"""The description, the result and the failure of one run of a study, as JSON values.

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

_DIGITS = 16


class JobError(UserError):
    """A run that cannot be described or executed now, or a result that cannot be stored; the message says why."""


@dataclass(frozen=True)
class Job:
    """One run of a study.

    ``runner`` is "package.module:function", a function ``(spec, folder) -> Result`` that any process can
    import. Its result depends only on ``spec``, which includes seeds, and not on earlier runs in the same
    process. ``folder`` belongs to the run: files in it survive if the run is killed and started again. A runner
    that receives SIGTERM can save its state, and then raises KeyboardInterrupt.

    ``spec`` holds JSON values; the specs 1 and 1.0 differ. Jobs with the same runner and spec are the same run,
    even if their names differ. ``places`` are paths of files, passed to the runner as ``spec["places"]``. They may
    differ between machines and do not identify the run: the spec holds the hashes of the files instead.
    """

    name: str
    runner: str
    spec: dict[str, Any] = field(hash=False)
    places: dict[str, str] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise JobError("a run without a name; expected a readable one, such as 'tabular/example-moves'")
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", self.runner):
            raise JobError(f"run '{self.name}': runner '{self.runner}'; expected 'package.module:function'")
        object.__setattr__(self, "spec", _plain(self.spec, f"run '{self.name}': spec"))

    def digest(self) -> str:
        """Return the identifier of the run, which is the same in every process and on every machine."""
        text = f"{self.runner}\n{canonical(self.spec)}"
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run: JSON values, in which NaN and infinity are allowed, and arrays of any shape."""

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def checked(self) -> Result:
        """Return the result as the store will return it; refuse a result that cannot be stored."""
        for name, array in self.arrays.items():
            if not isinstance(array, np.ndarray):
                raise JobError(f"arrays[{name!r}] is a {type(array).__name__}; expected a numpy array of numbers")
            if array.dtype.hasobject:
                raise JobError(f"arrays[{name!r}] is an array of {array.dtype}; expected a numpy array of numbers")
        arrays = {name: np.array(array, subok=False) for name, array in self.arrays.items()}
        return Result(_plain(self.numbers, "numbers"), arrays)


@dataclass(frozen=True)
class Failure:
    """A run without a result, with the reason in one line and the full traceback."""

    job: Job
    reason: str
    traceback: str


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _plain(values: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a copy of the values after a round trip through JSON, which also converts numpy's float64."""
    try:
        copy: dict[str, Any] = json.loads(json.dumps(values))
    except TypeError as error:
        raise JobError(f"{place}: {error}; expected numbers, texts, bools, None, lists and dicts of them") from None
    if not isinstance(copy, dict):
        raise JobError(f"{place}: a {type(copy).__name__}; expected a dict")
    return copy
