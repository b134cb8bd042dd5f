"""Repetition of a run: ``from=RUN`` stands for options with its stored values, which further arguments can change."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from drest_torch.config.reading import GROUPS, unquoted
from drest_torch.config.schema import Config
from drest_torch.config.stored import load_config
from drest_torch.errors import CheckpointError, ConfigError

OPTION = "_repeated"
"""Name of the option with a run's values in each group, and in the group ``from`` for keys without a group. No list of
options has a name that begins with an underscore."""
WITH_SCHEMA = ("algo", "objective", "env")
"""Groups whose dataclass depends on the option."""
METRICS = "metrics.jsonl"
"""The file that a run has and a saved agent lacks."""
ANEW = ("run_dir", "resume", "overwrite")
"""Keys that a repetition does not take from the run."""
TITLES = {"gridworld": ("levels", "name"), "gymnasium": ("env", "id"), "torchrl": ("env", "factory")}
"""Group and key of the default title, by the kind of environment."""


def repeated_run(arguments: Iterable[str]) -> Path | None:
    """Return the folder in ``from=RUN``, or None without this argument."""
    words = [word for word in arguments if word.startswith("from=")]
    if not words:
        return None
    if len(words) > 1:
        raise ConfigError(f"{words[1]}: from is given twice; a run repeats one other run")
    folder = unquoted(words[0].removeprefix("from="))
    if not folder:
        raise ConfigError("from=: expected the folder of a run")
    return Path(folder)


def stored_run(folder: Path) -> Config:
    """Return the configuration of a run that is to be repeated; refuse a folder without one.

    Saved agents have no metrics, and store the keys that describe the agent; the others have their defaults.
    """
    if not folder.is_dir():
        raise CheckpointError(f"from={folder}: no such folder; expected the folder of a run")
    return load_config(folder, whole=(folder / METRICS).is_file())


def repeat(arguments: Iterable[str]) -> tuple[list[str], dict[tuple[str | None, str], Any]]:
    """Return arguments with options in place of ``from=RUN``, and these options by group and name.

    An argument that chooses another option of a group replaces all of the run's values in this group.
    """
    arguments = list(arguments)
    folder = repeated_run(arguments)
    if folder is None:
        return arguments, {}
    if any(word.startswith("resume=") for word in arguments):
        raise ConfigError(
            f"resume with from={folder}: a run is resumed in its folder or repeated in a new one; leave one of them out"
        )
    chosen = {word.partition("=")[0] for word in arguments}
    replaced: list[str] = []
    for word in arguments:
        if not word.startswith("from="):
            replaced.append(word)
            continue
        for group in GROUPS:
            if group not in chosen:
                replaced.append(f"{group}={OPTION}")
        replaced.append(f"from={OPTION}")
    return replaced, _options(stored_run(folder))


def _options(cfg: Config) -> dict[tuple[str | None, str], Any]:
    """Return the options that have the values of a configuration."""
    values: Any = OmegaConf.to_container(OmegaConf.structured(cfg))
    kinds = {"policy": cfg.policy.network}
    if cfg.env.name != "gridworld":
        kinds["env"] = "gymnasium"
    if cfg.levels.generator is None:
        kinds["levels"] = "worlds"  # levels that are not generated
    group, key = TITLES[cfg.env.name]
    if values["env"]["title"] == values[group][key]:
        values["env"]["title"] = f"${{{group}.{key}}}"  # follows a change of this key
    options: dict[tuple[str | None, str], Any] = {}
    for group in GROUPS:
        defaults: list[Any] = []
        if group in WITH_SCHEMA:
            schema = OmegaConf.get_type(getattr(cfg, group))
            options[group, f"base_{OPTION}"] = schema
            defaults.append(f"base_{OPTION}")
        if group in kinds:
            kind = kinds[group]
            defaults.append({"override kind": kind})
        defaults.append("_self_")
        options[group, OPTION] = {"defaults": defaults}
        options[group, OPTION] |= values.pop(group)
    for key in ANEW:
        del values[key]
    options["from", OPTION] = values
    return options
