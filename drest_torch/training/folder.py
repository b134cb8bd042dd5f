"""The folder of a run: its configuration and its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from drest_torch.config.schema import Config, algorithms
from drest_torch.errors import CheckpointError

CHECKPOINTS = "checkpoints"
"""The name of the folder of checkpoints, inside the folder of a run."""


def resume_command(folder: Path) -> str:
    """Return the command that resumes a run."""
    return f"python -m drest_torch.train resume={folder}"


def load_config(folder: Path) -> Config:
    """Load the configuration that a run was started with."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise CheckpointError(f"{folder}: no run in it (no config.yaml); expected the folder of a run")
    try:
        loaded: Any = OmegaConf.load(path)
        schema = OmegaConf.structured(Config)
        schema.algo = OmegaConf.structured(algorithms()[loaded.algo.name].Config)
        return cast(Config, OmegaConf.merge(schema, loaded))
    except (YAMLError, OmegaConfBaseException, KeyError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{path}: not the configuration of a run of this version ({reason})") from None
