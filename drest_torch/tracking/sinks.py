"""Log the metrics of a run: always to ``metrics.jsonl`` in its folder, and to the sinks in ``logger.sinks``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drest_torch.config.logger import SINKS, LoggerConfig
from drest_torch.errors import UserError
from drest_torch.files import read_metrics, write_text


class LoggerError(UserError):
    """A logger that cannot be started; the message says in one sentence what to change."""


@dataclass(frozen=True)
class RunInfo:
    """What a sink needs to know about a run when it is opened."""

    folder: Path
    values: Mapping[str, Any]
    """The configuration of the run."""
    logger: LoggerConfig
    run_id: str | None = None
    """The `Sink.run_id` of a resumed run."""
    earlier: Sequence[Mapping[str, float]] = ()
    """What a resumed run logged up to its checkpoint: a row with ``step`` for each call of `Sink.log`. Later rows are
    logged again."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """What this session of the run is made with (`drest_torch.tracking.provenance`)."""


class Sink(AbstractContextManager[Any]):
    """A destination of a run's metrics; a context manager. A sink ignores what it cannot use.

    It is opened with ``Logger(run, options)``. For a resumed run it must then contain ``run.earlier``.
    """

    run_id: str | None = None
    """The id under which a resumed run continues, as in W&B; it is saved in checkpoints."""

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        """Open the sink; ``options`` are those of ``logger.sinks``."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log metrics after ``step`` environment steps; steps increase from call to call."""

    def picture(self, step: int, name: str, path: Path) -> None:
        """Log an image file."""

    def summary(self, step: int, values: Mapping[str, float]) -> None:
        """Log the final values of the whole run."""

    def close(self, *, failed: bool) -> None:
        """Close the sink after the end of the run or after an error."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.close(failed=error is not None)


class Loggers(AbstractContextManager["Loggers"]):
    """All sinks of a run as one; ``with Loggers(...) as loggers`` closes them, also after an error.

    To resume a run, pass its ``run_id`` and the step of its checkpoint as ``continue_from``.
    """

    def __init__(
        self,
        config: LoggerConfig,
        run_folder: Path,
        run_config: Mapping[str, Any],
        run_id: str | None = None,
        *,
        continue_from: int = 0,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        run_folder.mkdir(parents=True, exist_ok=True)
        self._step = continue_from
        self._lines = JsonLines(run_folder / "metrics.jsonl", continue_from)
        run = RunInfo(run_folder, run_config, config, run_id, self._lines.earlier, provenance or {})
        with ExitStack() as opened:  # if a sink cannot be opened, the earlier ones are closed
            self._sinks: list[Sink] = [
                opened.enter_context(SINKS[name].Logger(run, options or {})) for name, options in config.sinks.items()
            ]
            self._opened = opened.pop_all()

    @property
    def run_id(self) -> str | None:
        """The id of the sink that has one, for checkpoints."""
        return next((sink.run_id for sink in self._sinks if sink.run_id is not None), None)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log metrics after ``step`` environment steps."""
        self._step = step
        self._lines.log(step, metrics)
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

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._opened.__exit__(kind, error, trace)


class JsonLines:
    """A file with one JSON object per line, ``step`` first; a value that is not finite is written as null.

    The file is closed after each line, so a kill costs at most the line being written. With ``continue_from`` an
    existing file is continued. Only its complete lines up to that step are kept (``earlier``): a resumed run writes
    the later ones again.
    """

    def __init__(self, path: Path, continue_from: int = 0) -> None:
        self.path = path
        self.earlier = [row for row in read_metrics(path) if row["step"] <= continue_from] if continue_from else []
        write_text(path, "".join(map(_line, self.earlier)))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line({"step": step, **metrics}))


def _line(row: Mapping[str, float]) -> str:
    values = {name: float(value) if math.isfinite(value) else None for name, value in row.items() if name != "step"}
    return json.dumps({"step": int(row["step"])} | values, allow_nan=False) + "\n"
