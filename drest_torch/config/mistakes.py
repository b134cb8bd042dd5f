"""Explanations of invalid arguments: one sentence with the remedy."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError

from drest_torch.config.reading import GROUPS, quoted, unreadable
from drest_torch.config.schema import EnvConfig
from drest_torch.config.suggestions import nearest_keys

TYPES = {
    "BooleanNode": "true or false",
    "FloatNode": "a number",
    "IntegerNode": "a whole number, such as 1000000",
    "ListConfig": "a list, such as [1,2]",
    "StringNode": "a text",
}
"""Types of values by the names of OmegaConf's nodes."""
KEY = r"-|~[\w$]|(\+{0,2}[\w$][\w$./@:-]*)="
"""Start of an argument that can be valid for Hydra; the dash is of an option, which is not checked here."""
VARIATIONS = "levels/vary"
"""Group of options within another group."""
LEVEL_FILES = (".txt", ".json", ".jsonl")
MERGING = "Error merging override "
"""Prefix of Hydra's message about a value that does not fit."""


def explain(error: Exception, arguments: Sequence[str] = ()) -> str:
    """Return one sentence on why these arguments are invalid, with the remedy."""
    words = [*arguments]
    if isinstance(error, OverrideParseException):
        words.append(error.override)
    for word in words:
        if not re.match(KEY, word):
            return f"{word:.80}: expected KEY=VALUE; --help prints the keys"
    if isinstance(error, OverrideParseException):
        return unreadable(error.override)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        return _wrong_option(error.missing_cfg_file, list(error.options))
    return _wrong_value(error, arguments)


def _wrong_value(error: Exception, arguments: Sequence[str]) -> str:
    """Return a sentence on an invalid key or value, from the error of Hydra or OmegaConf."""
    text = " ".join(str(error).split())
    cause: Any = error.__cause__
    if isinstance(error, OmegaConfBaseException):
        cause = error
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _wrong_key(cause.full_key or "", cause.parent_node._get_root(), arguments)
    if isinstance(cause, ValidationError):
        if cause is error:
            return f"{cause.full_key}: {_first_line(cause)}".lstrip(": ")
        return _wrong_type(text.removeprefix(MERGING).lstrip("+"), cause)
    null = re.search(r"full_key: (\S+)", text)
    if isinstance(error, AttributeError) and null:  # an error of OmegaConf
        return f"{null[1]} is null here, and cannot be set on the command line; set it in a yaml file of your own"
    if isinstance(error, AssertionError):  # OmegaConf's own
        return "a key was set within one that is null, as levels.generator is of levels that are not generated"
    if text.startswith("Ambiguous value"):
        return _ambiguous(text)
    if "sweep type" in text or "requires --multirun" in text:
        return _wrong_sweep(text, arguments)
    if text.startswith(MERGING):
        return f"{text.removeprefix(MERGING)}; expected a value of another kind; --help says of which"
    return _wrong_group(text, arguments) or text


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _wrong_type(argument: str, cause: Any) -> str:
    """Return a sentence with the type that the value of an argument must have."""
    key, _, _ = argument.partition("=")
    if key == VARIATIONS.replace("/", "."):
        return f"{argument}; expected {VARIATIONS}=NAME for an option, or {key}.NAME=VALUE for a value"
    expected = TYPES.get(type(cause.child_node).__name__)
    if expected is None:
        return f"{argument}: {_first_line(cause)}"
    return f"{argument}; expected {expected}"


def _ambiguous(text: str) -> str:
    """Return a sentence on the syntax of lists, sweeps and texts with commas."""
    argument = text.split("'", 1)[1].partition("' ")[0]
    sentence = f"{argument}; several values are a list, KEY=[A,B], or one run each with -m"
    value = argument.partition("=")[2]
    if not re.search("[A-Za-z]", value):
        return sentence
    return f"{sentence}, or a text in quotes: {shlex.quote(quoted(argument))}"


def _wrong_sweep(text: str, arguments: Sequence[str]) -> str:
    """Return a sentence on a range of values in a command that cannot take it."""
    interval = next((argument for argument in arguments if "interval(" in argument), None)
    if interval is not None:
        return f"{interval}: drest search samples from intervals; for a sweep, list values, as in KEY=A,B, and add -m"
    return f"{text}; add -m for one run each"


def _wrong_group(text: str, arguments: Sequence[str]) -> str | None:
    """Return a sentence on an argument with an unknown group or without an option's name, or None."""
    unknown = re.match("Could not (?:override|delete) '([^']*)'", text)
    if unknown:
        return f"{unknown[1]}: no such group of values in this command; --help lists the keys"
    if not re.search("override must be a string|Error resolving interpolation|while composing config", text):
        return None
    for argument in arguments:
        group, _, value = argument.lstrip("+").partition("=")
        is_list_of_loggers = group == "logger" and value.startswith("[")
        if group in (*GROUPS, "study") and not _is_name(value) and not is_list_of_loggers:
            return f"{argument}; expected the name of an option, as in {group}=NAME; --help prints them"
    return None


def _is_name(value: str) -> bool:
    """Return whether a value can be the name of an option."""
    return bool(re.match("[A-Za-z_./]", value)) and value.lower() not in ("null", "true", "false")


def _wrong_option(path: str, options: list[str]) -> str:
    """Return a sentence with the options of a group, from Hydra's path of an unknown one (``levels/mine.txt``)."""
    group, _, name = path.partition("/")
    if path.startswith(("hydra/", f"{VARIATIONS}/")):
        group, _, name = path.rpartition("/")
    if group == "levels" and Path(name).suffix in LEVEL_FILES:
        return f"levels={name}; a file of levels is levels.path={name}"
    if group == "env" and re.search(r"-v\d+$", name):
        return f"env={name}; the id of a Gymnasium environment is given with env=gymnasium env.id={name}"
    names = [option for option in options if not option.startswith(("_", "base_"))]
    nearest = difflib.get_close_matches(name, names, 1)
    return f"{group}={name}; expected one of {', '.join(names)}{_did_you_mean(nearest)}"


def _wrong_key(key: str, configuration: Any, arguments: Sequence[str]) -> str:
    """Return a sentence with the nearest keys to a key that the configuration does not have."""
    whole = key
    for argument in arguments:
        written = argument.lstrip("+~").partition("=")[0]
        if f"{written}.".startswith(f"{key}."):
            whole = written
            break
    group, _, name = whole.partition(".")
    if group == "env" and name in {field.name for field in fields(EnvConfig)}:
        return _no_gridworld(whole, name)
    is_hydras = key.startswith("hydra.")
    keys = keys_of(OmegaConf.to_container(configuration))
    candidates = [other for other in keys if other.startswith("hydra.") == is_hydras]
    return f"{whole}: no such key{_did_you_mean(nearest_keys(whole, candidates))}; --cfg job prints all keys"


def _no_gridworld(key: str, name: str) -> str:
    """Return a sentence on a key of third-party environments in a gridworld run."""
    env = "gymnasium"
    if name == "factory":
        env = "torchrl"
    return f"{key}: no key of env=gridworld; choose another environment, as env={env}"


def _did_you_mean(names: list[str]) -> str:
    if not names:
        return ""
    return f" (did you mean {' or '.join(names)}?)"


def keys_of(values: Any) -> list[str]:
    """Return the keys of nested dictionaries with dots, outer ones first."""
    return list(_keys_in(values, ""))


def _keys_in(values: Any, prefix: str) -> Iterator[str]:
    if not isinstance(values, dict):
        return
    for name in values:
        yield f"{prefix}{name}"
    for name, inner in values.items():
        yield from _keys_in(inner, f"{prefix}{name}.")
