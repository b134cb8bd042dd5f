"""Colours of the pictures, and how a figure becomes a file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from matplotlib.figure import Figure

from envs.view.rendering import PictureError

TEXT, GREY, GRID = "#222222", "#8a8a8a", "#e6e6e6"


def write_figure(figure: Figure, path: Path) -> None:
    """Write a picture as PNG, whole or not at all, cut to what is drawn."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(partial, format="png", dpi=160, bbox_inches="tight", pad_inches=0.15)
        os.replace(partial, path)
    except OSError as error:
        raise PictureError(f"{path}: the picture cannot be written ({error.strerror})") from None
    finally:
        with suppress(OSError):
            partial.unlink()
