"""The configuration of a run as it stands in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.config.checks import check_limits
from drest_torch.config.schema import Config, algorithm
from drest_torch.errors import CheckpointError, UserError
from drest_torch.files import read_whole, write_whole

FORMER = {"algo": ("observation", "private_bits", "counting", "episodes_at_start"), "levels": ("env_steps", "entropy")}
"""Keys of older runs that other keys took their values from, by group: those have the values still."""
MOST_BYTES = 1 << 20
"""The largest configuration that is read; those that we write have a few thousand bytes."""

MOST_DEPTH = 20
_OPENING = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_CLOSING = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def write_config(cfg: Config, folder: Path) -> None:
    """Leave in the folder of a run every value that it has."""
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.structured(cfg), resolve=True).encode())


def read_config(path: Path) -> Any:
    """Return the values of a configuration file, which may be a stranger's.

    References within the file, which can make much of little, are refused. Interpolations such as ``${oc.env:HOME}``
    are texts: what they would name is not looked up.
    """
    text = read_whole(path, MOST_BYTES).decode()
    try:
        depth = 0
        for token in yaml.scan(text):
            depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
            if depth > MOST_DEPTH or isinstance(token, yaml.AliasToken):
                raise CheckpointError(f"{path}: has references (*name), or is nested too deeply; no run writes that")
        return OmegaConf.create(_as_text(OmegaConf.to_container(OmegaConf.create(text))))
    except (RecursionError, AssertionError):  # OmegaConf asserts that it is a list or a dictionary
        raise CheckpointError(f"{path}: not the configuration of a run of this version") from None


def _as_text(value: Any) -> Any:
    """Return nested values in which nothing is interpolated."""
    if isinstance(value, dict):
        return {_as_text(key): _as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_text(inner) for inner in value]
    return value.replace("${", "\\${") if isinstance(value, str) else value


def load_config(folder: Path) -> Config:
    """Return the configuration that a run was started with."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise CheckpointError(f"{folder}: no run in it (no config.yaml); expected the folder of a run")
    try:
        loaded = read_config(path)
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
