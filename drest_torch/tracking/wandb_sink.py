"""A logger for Weights & Biases; its options are the other keys of `logger`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drest_torch.errors import UserError
from drest_torch.tracking.sinks import RunInfo, Sink

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
"""Settings of wandb that suppress output and recordings other than the run's logs."""
ENVIRONMENT = {"WANDB_INIT_TIMEOUT": "10", "WANDB_FINISH_TIMEOUT": "60", "WANDB_ERROR_REPORTING": "false"}
"""Defaults of wandb's environment variables: timeouts in seconds for the first answer of the server and for the last
upload, where wandb by default waits minutes and indefinitely, and no error reports, which take time."""

INTERRUPTED = 130
"""The exit code of a run that was stopped before its end, as that of `drest train`."""


class WandbSink(Sink):
    """A run in Weights & Biases; ``step`` (environment steps) is the axis of every metric.

    Offline, everything is in ``<run_folder>/wandb/offline-run-<time>-<id>/``. This needs no account, key or network,
    and ``wandb sync FOLDER`` uploads it at any later time. A resumed run continues under its id. Online, the server has
    the earlier metrics. Offline, a resumed run starts a new folder with the same id and logs all rows up to the resumed
    step again: the folder of a killed run lacks its last seconds, and ``wandb sync`` may replace one folder by another.
    Sync the newest folder, which is complete.
    """

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        config = run.logger
        self._run = self.run_id = None
        self._exit_code = 0
        if config.mode != "disabled":
            self._run = _start(run)
            self.run_id = self._run.id
        if config.mode == "offline":
            for row in run.earlier:
                self.log(int(row["step"]), row)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._run is not None:
            self._run.log({**metrics, "step": step})

    def picture(self, step: int, name: str, path: Path) -> None:
        if self._run is not None:
            import wandb

            self._run.log({name: wandb.Image(str(path)), "step": step})

    def summary(self, step: int, values: Mapping[str, float]) -> None:
        if self._run is not None:
            self._run.summary.update(dict(values))

    def interrupt(self) -> None:
        """Let the server know that the run is not finished; in a sweep, request that an agent resumes it."""
        self._exit_code = INTERRUPTED
        if self._run is not None and "WANDB_SWEEP_ID" in os.environ:
            self._run.mark_preempting()

    def close(self, *, failed: bool) -> None:
        if self._run is not None:
            self._run.finish(exit_code=int(failed) or self._exit_code)


def _start(run: RunInfo) -> Any:
    """Start a run of wandb. The import is local because it takes most of a second."""
    config = run.logger
    options: dict[str, Any] = {
        "project": config.project,
        "group": config.group,
        "name": os.environ.get("WANDB_NAME", run.folder.name),
        "mode": config.mode,
        "dir": str(run.folder),
        "config": dict(run.values),
        "id": run.run_id,
    }
    if config.mode == "online":
        options["resume"] = "allow"
    with _isolated_wandb():
        os.environ.update(ENVIRONMENT | os.environ)
        import wandb

        try:
            wandb_run = wandb.init(**options, settings=wandb.Settings(**QUIET))
        except (wandb.Error, ValueError) as error:
            raise UserError(
                f"logger.mode={config.mode}: W&B could not be started ({' '.join(str(error).split())}); correct the "
                "logger's values, run `wandb login` first, or use logger.mode=offline"
            ) from error
    # A run resumed online already has the provenance of its first session.
    wandb_run.config.update({"provenance": dict(run.provenance)}, allow_val_change=True)
    wandb_run.define_metric("*", step_metric="step")
    return wandb_run


@contextmanager
def _isolated_wandb() -> Iterator[None]:
    """Restore environment variables that wandb sets, so that child processes do not inherit them.

    Standard input is empty within: at a terminal, wandb would otherwise wait for a missing key instead of raising.
    """
    environment, stdin = dict(os.environ), sys.stdin
    try:
        with open(os.devnull, encoding="utf-8") as sys.stdin:
            yield
    finally:
        sys.stdin = stdin
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


Logger = WandbSink
