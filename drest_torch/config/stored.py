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
from drest_torch.config.schema import Config, algorithm
from drest_torch.errors import CheckpointError, ConfigError, UserError
from drest_torch.files import write_whole


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
        schema = OmegaConf.structured(Config)
        schema.algo = OmegaConf.structured(algorithm(loaded.algo.name).Config)
        schema.objective = OmegaConf.structured(OBJECTIVES[loaded.objective.name].Config)
        cfg = cast(Config, OmegaConf.merge(schema, loaded))
        if missing := sorted(OmegaConf.missing_keys(cfg)):
            raise ConfigError(f"{missing[0]} has no value")
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
