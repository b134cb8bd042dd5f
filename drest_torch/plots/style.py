"""Colours of the pictures, and how a figure becomes a file."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure

from drest_torch.files import write_whole

TEXT, GREY, GRID = "#222222", "#8a8a8a", "#e6e6e6"


def write_figure(figure: Figure, path: Path) -> None:
    """Write a picture as PNG, whole or not at all, cropped to its content."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=160, bbox_inches="tight", pad_inches=0.15)
    write_whole(path, image.getvalue())
