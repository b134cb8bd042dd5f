"""The stored configuration of a run, in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.base import BLOCK
from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.base import HEAD_DEPTH, HEAD_WIDTH, requirements
from drest_torch.algos.networks.precision import FLOAT32
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.config.checks import check_limits
from drest_torch.config.command_lines import command_line
from drest_torch.config.logger import NO_SINK, SINKS
from drest_torch.config.reading import read_config, settings
from drest_torch.config.schema import ENV_CONFIGS, BaseEnvConfig, Config
from drest_torch.envs.generation.variations import Variations
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.files import write_whole
from drest_torch.registry import refuse_foreign, trust, without_working_directory

FUNCTIONS = (("env", "factory"), ("env", "control"), ("env", "id"), ("reward", "rule"), ("reward", "count"))
"""Groups and keys whose values can name a function of a module."""


ANY = object()
"""Marker of a removed key that had no effect, whatever its value."""
REMOVED: dict[str, Any] = {
    "algo.adam_eps": 1e-5,
    "algo.entropy_end": 0.0,
    "algo.gradient": "softmax",
    "algo.lr_end": 0.0,
    "algo.muon_lr_end": 0.0,
    "env.chance": 1.0,
    "env.quantile": 1.0,
    "env.reference_steps": None,
    "env.standardise": True,
    "logger.entity": ANY,
    "logger.name": ANY,
    "logger.tags": ANY,
    "policy.private_draws": ANY,
    "policy.private_kind": "bits",
    "reward.committed": False,
}
"""Keys of earlier versions, each with the value that allows a run to be resumed."""

NEW: dict[str, Any] = {
    "precision": FLOAT32,
    "overwrite": False,
    "last_batch": "whole",
    "patience": None,
    "algo.muon_matrix": BLOCK,
    "algo.weight_decay": 0.0,
    "algo.average": None,
    "policy.norm": None,
    "policy.dropout": 0.0,
    "policy.head_width": HEAD_WIDTH,
    "policy.head_depth": HEAD_DEPTH,
    "levels.sampler": "uniform",
    "reward.ends": "actual",
    "levels.regret.measure": "both",
    "levels.regret.pool": 256,
    "levels.regret.every": 16,
    "levels.regret.uniform": 0.5,
    "levels.regret.top": 1.0,
    **{f"levels.vary.{kind.name}": None for kind in fields(Variations)},
}
"""Keys that are missing in stored runs, each with the value that these runs used, or with its default if they used
none. Keys that a run's algorithm does not have are ignored."""
UNNAMED = {key for key in NEW if key not in ("precision", "overwrite")}
"""Keys that the specs of studies leave out at the values in `NEW`, so that stored results stay valid."""
NOT_STORED = ("overwrite",)
"""Top-level keys that concern the start of a run only."""


def write_config(cfg: Config, folder: Path) -> None:
    """Write the resolved configuration to the folder of a run."""
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(stored_values(cfg))).encode())


def stored_values(cfg: Config) -> dict[str, Any]:
    """Return the resolved values of a configuration that identify the run."""
    values: Any = OmegaConf.to_container(OmegaConf.structured(cfg), resolve=True)
    return {key: value for key, value in values.items() if key not in NOT_STORED}


def load_config(folder: Path, *, whole: bool = True) -> Config:
    """Return the stored configuration of a run in an untrusted folder.

    Resuming needs the ``whole`` configuration. For evaluation, missing keys have their defaults and unknown keys are
    ignored, because the run may be of an earlier version.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise CheckpointError(f"{folder}: no run in it (no config.yaml); expected the folder of a run")
    return cast(Config, read_stored(path, partial(_schema_of_run, folder), whole=whole))


def config_of(values: Any) -> Config:
    """Return the configuration with these values, which a command of the user has composed."""
    trust_modules_of(values)
    loaded = OmegaConf.create(values)
    return cast(Config, OmegaConf.merge(OmegaConf.structured(_schema_of_run(Path(loaded.run_dir), loaded)), loaded))


def _schema_of_run(folder: Path, loaded: Any) -> Config:
    """Return a configuration with the dataclasses that the stored values name."""
    if "language" in loaded:
        command = command_line("language evaluate", f"model={folder}")
        raise CheckpointError(f"{folder}: a run of a language model; evaluate it: {command}")
    schema = Config(
        algo=ALGORITHMS[loaded.algo.name].Config(),
        objective=OBJECTIVES[loaded.objective.name].Config(),
        env=ENV_CONFIGS[loaded.env.name](),
        run_dir="runs/earlier",  # the default has interpolations that need a command
    )
    _add_new_keys(loaded, schema)
    return schema


def _add_new_keys(loaded: Any, schema: Config) -> None:
    """Add the keys of `NEW` that a stored configuration lacks and that its schema has."""
    for key, value in NEW.items():
        *groups, name = key.split(".")
        within, kind = loaded, schema
        for group in groups:
            within.setdefault(group, {})
            within, kind = within[group], getattr(kind, group)
        if hasattr(kind, name):
            within.setdefault(name, value)


def without_new_keys(values: dict[str, Any]) -> dict[str, Any]:
    """Return stored values without the keys of `UNNAMED` that have the value of runs before these keys existed.

    `algo.muon_matrix` is also left out of runs in which it has no effect.
    """
    left = _without_new_keys(values, "")
    algo, network = left.get("algo", {}), values["policy"]["network"]
    has_no_blocks = network in NETWORKS and requirements(network).symmetries is None
    if has_no_blocks or algo.get("muon_lr") is None:
        algo.pop("muon_matrix", None)
    return left


def _without_new_keys(values: dict[str, Any], group: str) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{group}{name}"
        if key in UNNAMED and value == NEW[key]:
            continue
        if isinstance(value, dict) and value:
            value = _without_new_keys(value, f"{key}.")
            if not value:
                continue
        left[name] = value
    return left


@without_working_directory()
def read_stored(path: Path, schema_of: Callable[[Any], Any], *, whole: bool = True) -> Any:
    """Return a configuration from an untrusted file, with types and limits checked.

    All kinds of runs use this function. It raises before importing a module that `own_modules` yields and the user has
    not named; ``schema_of`` then returns the dataclass. A ``whole`` configuration has all keys and no others.
    """
    try:
        loaded = read_config(path)
        for key, module in own_modules(loaded):
            refuse_foreign(path, key, module)
        schema = OmegaConf.structured(schema_of(loaded))
        if whole:
            _require_all_keys(schema)
        _delete_unknown_keys(loaded, schema, allowed=not whole)
        cfg = OmegaConf.merge(schema, loaded)
        missing = OmegaConf.missing_keys(cfg)
        if missing:
            raise ConfigError(f"{min(missing)} has no value")
        check_limits(cfg)
    except CheckpointError:
        raise
    except (yaml.YAMLError, OmegaConfBaseException, LookupError, AttributeError, TypeError, ValueError) as error:
        reason, *_ = str(error).splitlines() or [type(error).__name__]
        raise CheckpointError(f"{path}: not the configuration of a run of this version ({reason})") from None
    return cfg


def _require_all_keys(schema: Any) -> None:
    """Remove all defaults from a structured configuration except null, which an older run may lack."""
    for _, field, _, within in settings(schema):
        if not within._get_node(field.name)._is_none():
            within[field.name] = MISSING


def _delete_unknown_keys(values: Any, schema: Any, prefix: str = "", *, allowed: bool) -> None:
    """Delete stored values whose keys a structured configuration does not have.

    Unless unknown keys are ``allowed``, raise for those that had an effect.
    """
    kind: Any = OmegaConf.get_type(schema)
    names = {field.name for field in fields(kind)}
    for name in list(values):
        key = f"{prefix}{name}"
        if name not in names:
            if not allowed and not _has_no_effect(key, values[name], kind):
                raise ConfigError(
                    f"{key} is not a key of this version: the run can be evaluated, but not resumed or repeated; start "
                    "a new one"
                )
            del values[name]
            continue
        inner = schema._get_node(name)
        if is_dataclass(OmegaConf.get_type(inner)) and OmegaConf.is_dict(values[name]):
            _delete_unknown_keys(values[name], inner, f"{key}.", allowed=allowed)


def _has_no_effect(key: str, value: Any, kind: type) -> bool:
    """Return whether a run would be the same without a stored key."""
    if kind is BaseEnvConfig:  # earlier runs in gridworlds had the keys of third-party environments
        return True
    return key in REMOVED and REMOVED[key] in (value, ANY)


def trust_modules_of(values: Any) -> None:
    """Register the modules that a configuration of the user names as trusted in stored configurations."""
    trust(*(module for _, module in own_modules(values)))


def own_modules(values: Any) -> Iterator[tuple[str, str]]:
    """Yield each key that names a module outside this project and its plugins, with the module."""

    def value(group: str, key: str) -> Any:
        return (values.get(group) or {}).get(key)

    names = [
        (ALGORITHMS, value("algo", "name")),
        (OBJECTIVES, value("objective", "name")),
        (NETWORKS, value("policy", "network")),
    ]
    of_language = value("language", "objective") or {}
    if "name" in of_language:
        names.append((OBJECTIVES, of_language["name"]))
    names += [(SINKS, name) for name in value("logger", "sinks") or ()]
    for registry, name in names:
        if name is not None and not registry.is_registered(str(name)):
            yield registry.key, str(name)
    sink = value("language", "logger")
    if sink not in (None, NO_SINK) and not SINKS.is_registered(str(sink)):
        yield "language.logger", str(sink)
    for group, key in FUNCTIONS:
        module, _, _ = str(value(group, key)).rpartition(":")
        if module and not module.startswith("drest_torch.envs.tasks."):
            yield f"{group}.{key}", module
