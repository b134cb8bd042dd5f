"""A logger for TensorBoard, in the run's folder; ``tensorboard --logdir runs`` displays it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drest_torch.errors import UserError
from drest_torch.tracking.sinks import RunInfo, Sink


class TensorBoardSink(Sink):
    """An event file with scalars by environment step, pictures, and the summary as ``summary/…``.

    The file of a killed run lacks its last seconds and may contain steps that are repeated later. A resumed run
    therefore replaces it by a new file that starts with the metrics up to the checkpoint.
    """

    def __init__(self, run: RunInfo, options: Mapping[str, Any]) -> None:
        folder = run.folder / "tensorboard"
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = _writer(folder)
        self._writer.add_text(
            "config", f"```json\n{json.dumps({**run.values, 'provenance': run.provenance}, indent=2)}\n```"
        )
        for row in run.earlier:
            self.log(int(row["step"]), row)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            if name != "step":
                self._writer.add_scalar(name, value, step)

    def picture(self, step: int, name: str, path: Path) -> None:
        from matplotlib.image import imread

        self._writer.add_image(name, imread(path)[..., :3], step, dataformats="HWC")

    def summary(self, step: int, values: Mapping[str, float]) -> None:
        self.log(step, {f"summary/{name}": value for name, value in values.items()})

    def close(self, *, failed: bool) -> None:
        self._writer.close()


def _writer(folder: Path) -> Any:
    """Open an event file. The import is local because TensorBoard takes seconds to import."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError(
            f"logger=tensorboard needs the package tensorboard ({error}); "
            "run `pip install tensorboard`, or choose another logger"
        ) from None
    return SummaryWriter(str(folder))


Logger = TensorBoardSink
