"""A logger for Trackio, a local dashboard with the calls of W&B; ``trackio show`` displays it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drest_torch.errors import UserError
from drest_torch.tracking.sinks import RunInfo, Sink


class TrackioSink(Sink):
    """A run in Trackio, with ``logger.project``, ``logger.group`` and the name of the run's folder.

    Its database is in the user's cache (``TRACKIO_DIR``). Further options of the sink go to ``trackio.init``, such as
    ``space_id`` for a Space on the Hugging Face Hub. A resumed run continues under its name, with the rows after its
    checkpoint logged again.
    """

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        self._trackio = _trackio()
        self._run = self._trackio.init(
            project=run.logger.project,
            name=run.folder.name,
            group=run.logger.group,
            config={**run.values, "provenance": dict(run.provenance)},
            resume="allow" if run.earlier else "never",
            **options,
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def picture(self, step: int, name: str, path: Path) -> None:
        self._run.log({name: self._trackio.Image(str(path))}, step=step)

    def summary(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({f"summary/{name}": value for name, value in values.items()}, step=step)

    def close(self, *, failed: bool) -> None:
        self._run.finish()


def _trackio() -> Any:
    """Import the package, which takes seconds."""
    try:
        import trackio
    except ImportError as error:
        raise UserError(
            f"logger=trackio needs the package trackio ({error}); run `pip install trackio`, or choose another logger"
        ) from None
    return trackio


Logger = TrackioSink
