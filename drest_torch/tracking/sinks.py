"""Logging of metrics: always to ``metrics.jsonl`` in the run's folder, and to the sinks in ``logger.sinks``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drest_torch.config.logger import SINKS, LoggerConfig
from drest_torch.files import read_metrics, write_text


@dataclass(frozen=True)
class RunInfo:
    """Information about a run for opening a sink."""

    folder: Path
    logger: LoggerConfig
    values: Mapping[str, Any] = field(default_factory=dict)
    """Configuration of the run."""
    run_id: str | None = None
    """`Sink.run_id` of a resumed run."""
    earlier: Sequence[Mapping[str, float]] = ()
    """Rows that a resumed run has logged up to its checkpoint, one per call of `Sink.log`, each with its ``step``.
    Later rows are logged again."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Provenance of this session (`drest_torch.tracking.provenance`)."""


class Sink(AbstractContextManager[Any]):
    """A destination of a run's metrics; a context manager. A sink ignores data that it cannot use.

    It is opened with ``Logger(run, options)``. For a resumed run it must then contain ``run.earlier``.
    """

    run_id: str | None = None
    """Id under which a resumed run continues, as in W&B; it is saved in checkpoints."""

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        """Open the sink with its ``options`` in ``logger.sinks``."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log metrics after ``step`` environment steps; steps increase from call to call."""

    def picture(self, step: int, name: str, path: Path) -> None:
        """Log an image file."""

    def summary(self, step: int, values: Mapping[str, float]) -> None:
        """Log the final values of the whole run."""

    def interrupt(self) -> None:
        """Record that the run stops before its end; it may be resumed later."""

    def close(self, *, failed: bool) -> None:
        """Close the sink at the end of the run or after an error."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.close(failed=error is not None)


class Loggers(AbstractContextManager["Loggers"]):
    """All sinks of a run; ``with Loggers(...) as loggers`` closes them, even after an error.

    To resume a run, pass its ``run_id`` and the step of its checkpoint as ``continue_from``.
    """

    def __init__(self, run: RunInfo, continue_from: int = 0) -> None:
        self._step = continue_from
        if continue_from:
            logged = read_metrics(run.folder / JsonLines.name)
            run = replace(run, earlier=[row for row in logged if row["step"] <= continue_from])
        with ExitStack() as opened:  # closes the others if a sink cannot be opened
            self._sinks: list[Sink] = [opened.enter_context(JsonLines(run, {}))]
            for name, options in run.logger.sinks.items():
                self._sinks.append(opened.enter_context(SINKS[name].Logger(run, options or {})))
            self._opened = opened.pop_all()

    @property
    def run_id(self) -> str | None:
        """First id of a sink, for checkpoints; None if no sink has one."""
        return next((sink.run_id for sink in self._sinks if sink.run_id is not None), None)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log metrics after ``step`` environment steps."""
        self._step = step
        for sink in self._sinks:
            sink.log(step, metrics)

    def picture(self, name: str, path: Path) -> None:
        """Log an image file at the step of the last metrics."""
        for sink in self._sinks:
            sink.picture(self._step, name, path)

    def summary(self, values: Mapping[str, float]) -> None:
        """Log the final values of the whole run."""
        for sink in self._sinks:
            sink.summary(self._step, values)

    def interrupt(self) -> None:
        """Record that the run stops before its end; it may be resumed later."""
        for sink in self._sinks:
            sink.interrupt()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._opened.__exit__(kind, error, trace)


class Lines(Sink):
    """A file in the run's folder to which each row is appended immediately; a resumed run keeps its earlier rows.

    The file is closed after each row, so a kill loses at most the row being written. Lines without an end are invalid.
    """

    name: str
    head = ""

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        self.path = run.folder / self.name
        write_text(self.path, self.head + "".join(map(self.text, run.earlier)))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(self.text({"step": step, **metrics}).encode())

    def text(self, row: Mapping[str, float]) -> str:
        """Return the lines for a row of metrics with its ``step``."""
        raise NotImplementedError


class JsonLines(Lines):
    """A file with one JSON object per line, ``step`` first; values that are not finite are null."""

    name = "metrics.jsonl"

    def text(self, row: Mapping[str, float]) -> str:
        values: dict[str, float | None] = {}
        for name, value in row.items():
            values[name] = None
            if math.isfinite(value):
                values[name] = float(value)
        values["step"] = int(row["step"])
        return json.dumps(values, allow_nan=False) + "\n"
