"""Read configuration files, which may be a stranger's, and their keys. Torch is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import yaml
from omegaconf import DictConfig, OmegaConf

from drest_torch.errors import CheckpointError
from drest_torch.files import read_whole

GROUPS = ("algo", "objective", "reward", "levels", "env", "policy", "logger")
"""The groups of values of a run, of which an option is chosen by name."""
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


class Setting(NamedTuple):
    """A key of a structured configuration."""

    key: str
    """With dots."""
    field: Field[Any]
    hint: Any
    within: Any
    """What it is a key of."""


def settings(cfg: Any, prefix: str = "") -> Iterator[Setting]:
    """Yield the keys of a structured configuration, those of configurations within it after the others."""
    kind: Any = OmegaConf.get_type(cfg)
    hints, inner = get_type_hints(kind), []
    for each in fields(kind):
        node = cfg._get_node(each.name)
        if isinstance(node, DictConfig) and is_dataclass(OmegaConf.get_type(node)):
            inner.append((node, f"{prefix}{each.name}."))
        else:
            yield Setting(f"{prefix}{each.name}", each, hints[each.name], cfg)
    for node, start in inner:
        yield from settings(node, start)


def typed(value: Any) -> str:
    """Return a value as it is typed on the command line."""
    plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    line = yaml.safe_dump(plain, default_flow_style=True, width=10_000, allow_unicode=True)
    return line.removesuffix("...\n").strip().replace(", ", ",")
