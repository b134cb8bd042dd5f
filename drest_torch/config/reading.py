"""Read configuration files, which may be a stranger's, and their keys. Torch is not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from drest_torch.errors import CheckpointError
from drest_torch.files import read_whole

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


def flattened(values: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values of nested dictionaries by their keys, with dots."""
    if not isinstance(values, dict) or not values:
        return {prefix[:-1]: values}
    return {key: value for name, inner in values.items() for key, value in flattened(inner, f"{prefix}{name}.").items()}
