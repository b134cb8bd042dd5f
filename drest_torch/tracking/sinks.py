"""Where a run's metrics go: always to ``metrics.jsonl`` in its folder, and to Weights & Biases."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from drest_torch.config.schema import LOGGER_MODES, LoggerConfig
from drest_torch.errors import UserError

QUIET: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}
"""Settings of wandb: nothing is printed, and nothing is recorded but what the run logs itself."""


class LoggerError(UserError):
    """A logger that cannot be started; the message says in one sentence what to change."""


class JsonLines:
    """A file with one JSON object a line, ``step`` first; a value that is not finite is written as null.

    Each line is written and the file closed at once, so a kill costs at most the line being written.
    With ``continue_from`` an earlier file is gone on with: of its lines only the complete ones up to that
    step are kept (``earlier``), as a killed run has written some that it is going to write again.
    """

    def __init__(self, path: Path, continue_from: int = 0) -> None:
        self.path = path
        self.earlier = [row for row in read_metrics(path) if row["step"] <= continue_from] if continue_from else []
        partial = path.with_name(path.name + ".partial")
        partial.write_text("".join(map(_line, self.earlier)), encoding="utf-8")
        os.replace(partial, path)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line({"step": step, **metrics}))


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The rows of a file of ``JsonLines``, null as NaN; lines that are not complete are left out."""
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


class WandbLogger:
    """A run in Weights & Biases; ``step`` (environment steps) is the axis of every metric.

    Offline, all is in ``<run_folder>/wandb/offline-run-<time>-<id>/``; no account, key or network is
    needed, and ``wandb sync <that folder>`` uploads it at any later time. A resumed run (``run_id``) goes
    on under its id. Online the server has its past. Offline that begins another folder with the same id;
    as a killed run's folder lacks its last seconds, and ``wandb sync`` may let one folder replace another,
    ``earlier``, the rows up to the resumed step, is logged again: sync the newest folder, it has it all.
    """

    def __init__(
        self,
        config: LoggerConfig,
        run_folder: Path,
        run_config: dict[str, Any],
        run_id: str | None = None,
        earlier: Sequence[Mapping[str, float]] = (),
    ) -> None:
        if config.mode not in LOGGER_MODES:
            raise LoggerError(f"logger.mode={config.mode}; expected one of {', '.join(LOGGER_MODES)}")
        self._run = None if config.mode == "disabled" else _start(config, run_folder, run_config, run_id)
        self._step = int(earlier[-1]["step"]) if earlier else 0
        if config.mode == "offline":
            for row in earlier:
                self.log(int(row["step"]), row)

    @property
    def run_id(self) -> str | None:
        """The id to go on under when the run is resumed; None if disabled."""
        return None if self._run is None else self._run.id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._step = step
        if self._run is not None:
            self._run.log({**metrics, "step": step})

    def picture(self, name: str, path: Path) -> None:
        """Log an image file, at the step of the metrics logged last."""
        if self._run is not None:
            import wandb

            self._run.log({name: wandb.Image(str(path)), "step": self._step})

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set values of the run as a whole."""
        if self._run is not None:
            self._run.summary.update(dict(values))

    def finish(self, *, failed: bool = False) -> None:
        if self._run is not None:
            self._run.finish(exit_code=int(failed))


def _start(config: LoggerConfig, run_folder: Path, run_config: dict[str, Any], run_id: str | None) -> Any:
    """A run of wandb, which is imported only here: that takes most of a second."""
    options: dict[str, Any] = {
        "project": config.project,
        "entity": config.entity,
        "group": config.group,
        "name": config.name or run_folder.name,
        "tags": list(config.tags),
        "mode": config.mode,
        "dir": str(run_folder),
        "config": run_config,
        "id": run_id,
        "resume": "allow" if config.mode == "online" else None,
    }
    with _environment_kept(), _nobody_asked():
        import wandb

        try:
            run = wandb.init(**options, settings=wandb.Settings(**QUIET))
        except (wandb.Error, ValueError) as error:
            raise LoggerError(_advice(config.mode, " ".join(str(error).split()))) from error
    run.define_metric("*", step_metric="step")
    return run


def _advice(mode: str, reason: str) -> str:
    if mode == "online":
        return (
            f"logger.mode=online: W&B could not be reached or did not let us in ({reason}); "
            "run `wandb login` first, or use logger.mode=offline"
        )
    return f"logger.mode={mode}: W&B could not be started ({reason}); correct the logger's values, or use logger=none"


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Take back what wandb writes into WANDB_* variables, which child processes would inherit."""
    before = _wandb_variables()
    try:
        yield
    finally:
        for name in _wandb_variables():
            del os.environ[name]
        os.environ.update(before)


def _wandb_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("WANDB")}


@contextmanager
def _nobody_asked() -> Iterator[None]:
    """On a terminal wandb asks for a missing key and waits; with no input it raises an error instead."""
    stdin = sys.stdin
    try:
        with open(os.devnull, encoding="utf-8") as sys.stdin:
            yield
    finally:
        sys.stdin = stdin


class Loggers:
    """All of a run's loggers as one; ``with Loggers(...) as loggers`` finishes them whatever happens.

    To resume a run give its ``run_id`` and the step of its checkpoint as ``continue_from``.
    """

    def __init__(
        self,
        config: LoggerConfig,
        run_folder: Path,
        run_config: dict[str, Any],
        run_id: str | None = None,
        *,
        continue_from: int = 0,
    ) -> None:
        run_folder.mkdir(parents=True, exist_ok=True)
        self._lines = JsonLines(run_folder / "metrics.jsonl", continue_from)
        self._wandb = WandbLogger(config, run_folder, run_config, run_id, self._lines.earlier)

    @property
    def run_id(self) -> str | None:
        """W&B's id of the run, to be saved in its checkpoints; None if W&B is disabled."""
        return self._wandb.run_id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._lines.log(step, metrics)
        self._wandb.log(step, metrics)

    def picture(self, name: str, path: Path) -> None:
        self._wandb.picture(name, path)

    def summary(self, values: Mapping[str, Any]) -> None:
        self._wandb.summary(values)

    def finish(self, *, failed: bool = False) -> None:
        self._wandb.finish(failed=failed)

    def __enter__(self) -> Loggers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(failed=error is not None)
