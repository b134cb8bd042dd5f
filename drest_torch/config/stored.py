"""The configuration of a run as it stands in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.config.checks import check_limits
from drest_torch.config.reading import read_config
from drest_torch.config.schema import REMOVED, Config, algorithm
from drest_torch.errors import CheckpointError, UserError
from drest_torch.files import write_whole

FORMER = {"algo": ("observation", "private_bits", "counting", "episodes_at_start"), "levels": ("env_steps", "entropy")}
"""Keys of older runs that other keys took their values from, by group: those have the values still."""


def write_config(cfg: Config, folder: Path) -> None:
    """Leave in the folder of a run every value that it has."""
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.structured(cfg), resolve=True).encode())


def load_config(folder: Path) -> Config:
    """Return the configuration that a run was started with."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise CheckpointError(f"{folder}: no run in it (no config.yaml); expected the folder of a run")
    try:
        loaded = read_config(path)
        for key in REMOVED:
            loaded.pop(key, None)
        for group, keys in FORMER.items():
            for key in keys:
                loaded[group].pop(key, None)
        if "env" not in loaded:  # a run of before there were others
            loaded.env = {"name": "gridworld"}
        schema = OmegaConf.structured(Config)
        schema.algo = OmegaConf.structured(algorithm(loaded.algo.name).Config)
        if "objective" in loaded:
            schema.objective = OmegaConf.structured(OBJECTIVES[loaded.objective.name].Config)
        cfg = cast(Config, OmegaConf.merge(schema, loaded))
        check_limits(cfg)
    except CheckpointError:
        raise
    except (
        yaml.YAMLError,
        OmegaConfBaseException,
        UserError,
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path}: not the configuration of a run of this version ({reason})") from None
    return cfg
