"""The folder of a run."""

from __future__ import annotations

from pathlib import Path

CHECKPOINTS = "checkpoints"
"""In a run's folder, that of its checkpoints."""


def resume_command(folder: Path) -> str:
    """Return the command that resumes the run of this folder."""
    return f"python -m drest_torch.train resume={folder}"
