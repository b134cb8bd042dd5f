"""Where a run's metrics go: always to ``metrics.jsonl`` in its folder, and to the sinks that ``logger.sinks`` names."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from drest_torch.config.logger import SINKS, LoggerConfig
from drest_torch.errors import UserError
from drest_torch.files import write_text


class LoggerError(UserError):
    """A logger that cannot be started; the message says in one sentence what to change."""


@dataclass(frozen=True)
class RunInfo:
    """A run as its sinks see it when they are opened."""

    folder: Path
    values: Mapping[str, Any]
    """Its configuration"""
    logger: LoggerConfig
    run_id: str | None = None
    """Of a resumed run what `Sink.run_id` was"""
    earlier: Sequence[Mapping[str, float]] = ()
    """Of a resumed run what was logged up to its checkpoint, a row with ``step`` for each call of `Sink.log`. What was
    logged after it is logged once more."""


_Sink = TypeVar("_Sink", bound="Sink")


class Sink:
    """A place where a run's metrics go; a context manager. A sink leaves out what it has no use for.

    It is opened with ``Logger(run, options)``, also for a run that is resumed, and then has to hold ``run.earlier``.
    """

    run_id: str | None = None
    """An id under which a resumed run continues; it is saved in checkpoints. W&B has one."""

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        """Open the sink; ``options`` are its values in ``logger.sinks``."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take the metrics after so many environment steps; steps only grow."""

    def picture(self, step: int, name: str, path: Path) -> None:
        """Take an image file."""

    def summary(self, step: int, values: Mapping[str, float]) -> None:
        """Take the final values of the run as a whole."""

    def close(self, *, failed: bool) -> None:
        """Finish, after the run's end or an error."""

    def __enter__(self: _Sink) -> _Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=error is not None)


class Loggers:
    """All of a run's sinks as one; ``with Loggers(...) as loggers`` closes them whatever happens.

    To resume a run give its ``run_id`` and the step of its checkpoint as ``continue_from``.
    """

    def __init__(
        self,
        config: LoggerConfig,
        run_folder: Path,
        run_config: Mapping[str, Any],
        run_id: str | None = None,
        *,
        continue_from: int = 0,
    ) -> None:
        run_folder.mkdir(parents=True, exist_ok=True)
        self._step = continue_from
        self._lines = JsonLines(run_folder / "metrics.jsonl", continue_from)
        run = RunInfo(run_folder, run_config, config, run_id, self._lines.earlier)
        with ExitStack() as opened:  # if one cannot be opened, those before it are closed
            self._sinks: list[Sink] = [
                opened.enter_context(SINKS[name].Logger(run, options or {})) for name, options in config.sinks.items()
            ]
            self._opened = opened.pop_all()

    @property
    def run_id(self) -> str | None:
        """The id of the sink that has one, to be saved in checkpoints."""
        return next((sink.run_id for sink in self._sinks if sink.run_id is not None), None)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._step = step
        self._lines.log(step, metrics)
        for sink in self._sinks:
            sink.log(step, metrics)

    def picture(self, name: str, path: Path) -> None:
        """Log an image file, at the step of the metrics logged last."""
        for sink in self._sinks:
            sink.picture(self._step, name, path)

    def summary(self, values: Mapping[str, float]) -> None:
        """Log values of the run as a whole."""
        for sink in self._sinks:
            sink.summary(self._step, values)

    def __enter__(self) -> Loggers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)


# --------------------------------------------------------------------------------- metrics.jsonl


class JsonLines:
    """A file with one JSON object a line, ``step`` first; a value that is not finite is written as null.

    Each line is written and the file closed at once, so a kill costs at most the line being written.
    With ``continue_from`` an earlier file is continued: of its lines only the complete ones up to that
    step are kept (``earlier``), as a killed run has written some that it is going to write again.
    """

    def __init__(self, path: Path, continue_from: int = 0) -> None:
        self.path = path
        self.earlier = [row for row in read_metrics(path) if row["step"] <= continue_from] if continue_from else []
        write_text(path, "".join(map(_line, self.earlier)))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line({"step": step, **metrics}))


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the rows of a file of ``JsonLines``, null as NaN; lines that are not complete are left out."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append({name: math.nan if value is None else value for name, value in row.items()})
    return rows


def _line(row: Mapping[str, float]) -> str:
    values = {name: float(value) if math.isfinite(value) else None for name, value in row.items() if name != "step"}
    return json.dumps({"step": int(row["step"])} | values, allow_nan=False) + "\n"
