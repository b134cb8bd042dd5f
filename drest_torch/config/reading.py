"""Reading of untrusted configuration files, and their keys; this module does not import torch."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from omegaconf import DictConfig, OmegaConf

from drest_torch.errors import CheckpointError
from drest_torch.files import read_whole

GROUPS = ("algo", "objective", "reward", "levels", "env", "policy", "logger")
"""Groups of a run's configuration with options that are chosen by name."""
MOST_BYTES = 1 << 20
"""Maximum size of a configuration file in bytes; ours have a few thousand."""

MOST_DEPTH = 20
"""Maximum nesting of a configuration file."""


def read_config(path: Path) -> Any:
    """Return the values of an untrusted configuration file.

    References within the file are refused, because they can expand without limit. Interpolations such as
    ``${oc.env:HOME}`` are kept as text and not resolved.
    """
    text = read_whole(path, MOST_BYTES).decode()
    try:
        if not _is_plain(text):
            raise CheckpointError(f"{path}: has references (*name), or is nested too deeply; no run writes such a file")
        values = OmegaConf.to_container(OmegaConf.create(text))
        return OmegaConf.create(_as_text(values))
    except (RecursionError, AssertionError):  # OmegaConf asserts that it is a list or a dictionary
        raise CheckpointError(f"{path}: not the configuration of a run of this version") from None


def _is_plain(text: str) -> bool:
    """Return whether a YAML text has no references and is not nested too deeply."""
    depth = 0
    for event in yaml.parse(text):
        if isinstance(event, yaml.AliasEvent):
            return False
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_DEPTH:
            return False
    return True


def _as_text(value: Any) -> Any:
    """Return nested values with all interpolations escaped."""
    if isinstance(value, dict):
        return {_as_text(key): _as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_text(inner) for inner in value]
    if isinstance(value, str):
        return value.replace("${", "\\${")
    return value


def flattened(values: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values of nested dictionaries by keys with dots."""
    if not isinstance(values, dict) or not values:
        return {prefix[:-1]: values}
    flat: dict[str, Any] = {}
    for name, inner in values.items():
        flat |= flattened(inner, f"{prefix}{name}.")
    return flat


def settings(cfg: Any, prefix: str = "") -> Iterator[tuple[str, Field[Any], Any, Any]]:
    """Yield each key of a structured configuration with its field, its type and the configuration that contains it.

    Keys have dots; keys of nested configurations follow the others.
    """
    kind: Any = OmegaConf.get_type(cfg)
    hints = get_type_hints(kind)
    groups = []
    for entry in fields(kind):
        key = f"{prefix}{entry.name}"
        node = cfg._get_node(entry.name)
        if isinstance(node, DictConfig) and is_dataclass(OmegaConf.get_type(node)):
            groups.append((node, key))
        else:
            yield key, entry, hints[entry.name], cfg
    for group, key in groups:
        yield from settings(group, f"{key}.")


def typed(value: Any) -> str:
    """Return a value as typed on the command line."""
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    line = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return line.removesuffix("...\n").strip().replace(", ", ",")


def quoted(argument: str) -> str:
    """Return KEY=VALUE, with quotes around a value that Hydra would not read as text."""
    key, _, value = argument.partition("=")
    if key == "imports":  # not passed to Hydra
        return argument
    is_plain = re.fullmatch(r"[1-9][0-9]*|[A-Za-z_./][\w./%@+-]*", value, re.ASCII)
    if is_plain and value.lower() not in ("null", "true", "false", "nan", "inf"):
        return argument
    value = re.sub(r'(\\*)(?="|$)', r"\1\1", value).replace('"', r"\"")
    return f'{key}="{value}"'


def unquoted(value: str) -> str:
    """Return the text of a value that `quoted` may have put in quotes."""
    quote = value[:1]
    if len(value) < 2 or quote not in ("'", '"') or not value.endswith(quote):
        return value
    return re.sub(r"(\\+)(?=[\"']|$)", _half, value[1:-1])


def _half(backslashes: re.Match[str]) -> str:
    """Return half of the matched backslashes."""
    text = backslashes[0]
    return text[: len(text) // 2]


def unreadable(argument: str) -> str:
    """Return a sentence on an unreadable KEY=VALUE, with the quoting that makes the value a text."""
    words = "cannot be read; a text with such characters is written in quotes"
    return f"{argument:.80}: {words}: {shlex.quote(quoted(argument))}"
