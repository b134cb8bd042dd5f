"""Log to Weights & Biases; its options are the other keys of `logger`."""

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
"""Settings of wandb: it prints nothing, and records only what the run logs."""
ENVIRONMENT = {"WANDB_INIT_TIMEOUT": "10", "WANDB_FINISH_TIMEOUT": "60", "WANDB_ERROR_REPORTING": "false"}
"""Unless the user says otherwise: the seconds that a server gets to answer, and to take what is left at the end, for
which wandb waits minutes by itself, and for ever; and no reports of errors, which take time and fail with a message."""


class WandbSink(Sink):
    """A run in Weights & Biases; ``step`` (environment steps) is the axis of every metric.

    Offline, everything is in ``<run_folder>/wandb/offline-run-<time>-<id>/``. This needs no account, key or network,
    and ``wandb sync FOLDER`` uploads it at any later time. A resumed run continues under its id. Online, the server has
    the earlier metrics. Offline, a resumed run begins another folder with the same id. The folder of a killed run lacks
    its last seconds, and ``wandb sync`` can replace one folder by another, so the rows up to the resumed step are
    logged again: sync the newest folder, which is complete.
    """

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        config = run.logger
        self._run = self.run_id = None
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

    def close(self, *, failed: bool) -> None:
        if self._run is not None:
            self._run.finish(exit_code=int(failed))


def _start(run: RunInfo) -> Any:
    """Start a run of wandb, which is imported only here because its import takes most of a second."""
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
    with _undisturbed():
        os.environ.update(ENVIRONMENT | os.environ)
        import wandb

        try:
            wandb_run = wandb.init(**options, settings=wandb.Settings(**QUIET))
        except (wandb.Error, ValueError) as error:
            raise UserError(
                f"logger.mode={config.mode}: W&B could not be started ({' '.join(str(error).split())}); correct the "
                "logger's values, run `wandb login` first, or use logger.mode=offline"
            ) from error
    # A run that is resumed online has the provenance of its first session already.
    wandb_run.config.update({"provenance": dict(run.provenance)}, allow_val_change=True)
    wandb_run.define_metric("*", step_metric="step")
    return wandb_run


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Undo what wandb writes to variables of the environment, which child processes would inherit.

    Standard input is closed meanwhile: on a terminal wandb would wait for a missing key, and now raises an error.
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
