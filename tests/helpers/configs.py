"""Configurations of tests, and what is written about them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir

from drest_torch.cli import register
from drest_torch.config import schema as config
from drest_torch.config.schema import config_folder, schemas
from drest_torch.reward import Reward
from drest_torch.training import levels as data

FOLDER = config_folder()
NOT_OURS = {"defaults", "hydra"}


GROUPS = ("algo", "reward", "levels", "policy", "logger")


OPTIONS = [(group, path.stem) for group in GROUPS for path in sorted((FOLDER / group).glob("*.yaml"))]


def composed(*overrides: str, name: str = "config") -> Any:
    register()
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return compose(name, list(overrides))


def names(schema: type) -> set[str]:
    return {each.name for each in fields(schema)}


def ours(path: Path) -> dict[str, Any]:
    """The keys that a yaml file gives values to."""
    return {key: value for key, value in yaml.safe_load(path.read_text("utf-8")).items() if key not in NOT_OURS}


def unexplained(text: str) -> list[str]:
    """The keys with no comment above them; one comment may do for several lines, until the next empty one."""
    found, explained = [], False
    for line in text.split("\n"):
        words = line.strip()
        if words.startswith("#") or not words:
            explained = bool(words)
        elif not explained and not words.startswith("- "):
            found.append(words.partition(":")[0])
    return [name for name in found if name not in NOT_OURS]


def preset(name, *overrides):
    levels = composed(f"levels={name}", "run_dir=x", *overrides).levels
    return data.generator_config(levels.generator, levels.clock)


def keys() -> set[tuple[str, str]]:
    """Every ``(part of the configuration, key)``, but those of the generator and of `Reward`, all of which are read."""
    parts = {("heldout", name) for name in names(config.HeldoutConfig)}
    parts |= {("", name) for name in names(config.Config) | names(config.EvaluateConfig)}
    parts |= {(group, key) for group, name in OPTIONS for key in names(schema_of(group, name))}
    return parts - {("reward", name) for name in names(Reward)}


def schema_of(group: str, name: str) -> type:
    group, name = RECIPES.get((group, name), (group, name))
    return schemas()[group, f"base_{name if group == 'algo' else group}"]


def based_on(group: str, name: str) -> str:
    """What a yaml file begins with: a schema, or another option of which it changes some keys."""
    first: str = yaml.safe_load((FOLDER / group / f"{name}.yaml").read_text("utf-8"))["defaults"][0]
    return first


RECIPES = {
    (group, name): (group, based_on(group, name))
    for group, name in OPTIONS
    if not based_on(group, name).startswith("base_")
}
"""Options that give other values to some keys of another option."""
