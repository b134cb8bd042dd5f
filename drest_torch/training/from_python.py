"""Training from Python with the values, checks and files of the command ``drest train``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from drest_torch.config.compose import compose, options
from drest_torch.config.reading import GROUPS, quoted
from drest_torch.errors import ConfigError
from drest_torch.training.repetition_note import announce_repetition
from drest_torch.training.run import Callback, start_or_resume


def train(overrides: Sequence[str], values: Mapping[str, Any], callbacks: Sequence[Callback]) -> Path:
    """Train a run with these command-line arguments and these values by name; return its folder.

    If interrupted, save the run and raise a `KeyboardInterrupt`.
    """
    arguments, others = _split({key: _plain(value) for key, value in values.items()})
    announce_repetition([*arguments, *overrides])
    cfg = compose(*arguments, *overrides, values=others)
    keys = {re.split("[=.]", override.lstrip("+~"))[0] for override in overrides}
    run = start_or_resume(cfg, keys | set(values))
    run.callbacks = callbacks
    if run.train() is None:
        raise KeyboardInterrupt(f"{run.folder} was interrupted and saved")
    return run.folder


def _split(values: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the options of groups as arguments, and all other values."""
    arguments, others = list[str](), dict[str, Any]()
    for key, value in values.items():
        if key in ("from", "from_"):
            arguments.append(quoted(f"from={value}"))
        elif key == "env" and not isinstance(value, list):
            option, others[key] = _environment(value)
            arguments += option
        elif key in GROUPS and isinstance(value, str):
            arguments.append(f"{key}={value}")
        elif key in GROUPS and isinstance(value, list):
            arguments.append(f"{key}=[{','.join(map(str, value))}]")
        else:
            others[key] = value
    return arguments, others


def _environment(value: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the option of ``env`` and its values, for a name, an id, a function, or a mapping of values."""
    if isinstance(value, dict):
        kinds = {"id": "gymnasium", "factory": "torchrl"}
        return [f"env={kind}" for key, kind in kinds.items() if key in value], value
    if callable(value):
        value = f"{value.__module__}:{getattr(value, '__qualname__', type(value).__name__)}"
        if not re.fullmatch(r"[\w.]+:\w+", value):
            raise ConfigError(
                f"env={value}; a run finds its environment by name, so give a function defined in a module"
            )
    if value in options("env"):
        return [f"env={value}"], {}
    if re.search(r"-v\d+$", value):
        return ["env=gymnasium"], {"id": value}
    if ":" in value:
        return ["env=torchrl"], {"factory": value}
    return [f"env={value}"], {}


def _plain(value: Any) -> Any:
    """Convert a value for a configuration: paths to strings, sequences to lists."""
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
