"""The configuration of a run as it stands in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.config.checks import check_limits
from drest_torch.config.logger import NO_SINK, SINKS
from drest_torch.config.reading import read_config, settings
from drest_torch.config.schema import PLACES, Config
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.files import write_whole
from drest_torch.registry import not_here, refuse_foreign, trust


def write_config(cfg: Config, folder: Path) -> None:
    """Leave in the folder of a run every value that it has."""
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.structured(cfg), resolve=True).encode())


def load_config(folder: Path, *, whole: bool = True) -> Config:
    """Return the configuration that a run was started with; the folder may be a stranger's.

    The ``whole`` configuration is needed to go on with a run. To evaluate one, a key that it does not have takes its
    default, and a key that this version does not have is left out: the run may be of an earlier version.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise CheckpointError(f"{folder}: no run in it (no config.yaml); expected the folder of a run")
    return cast(Config, read_stored(path, _schema_of_run, whole=whole))


def _schema_of_run(loaded: Any) -> Config:
    if "language" in loaded:
        raise ConfigError("it is that of a language model, which `drest language` reads")
    return Config(
        algo=ALGORITHMS[loaded.algo.name].Config(),
        objective=OBJECTIVES[loaded.objective.name].Config(),
        env=PLACES[loaded.env.name](),
        run_dir="runs/earlier",  # its default is a text that only a command fills in
    )


@not_here()
def read_stored(path: Path, schema_of: Callable[[Any], Any], *, whole: bool = True) -> Any:
    """Return a configuration that a run has stored; the file may be a stranger's.

    Every kind of run reads its own here. No module is imported that `own_modules` yields and the user has not named,
    and only then is the dataclass that ``schema_of`` returns compared with the values: each has its type and is within
    its limits. A ``whole`` configuration has all keys, and no others.
    """
    try:
        loaded = read_config(path)
        for key, module in own_modules(loaded):
            refuse_foreign(path, key, module)
        schema = OmegaConf.structured(schema_of(loaded))
        unknown = list(_unknown_keys(loaded, schema))
        if unknown and whole:
            raise ConfigError(
                f"{unknown[0]} is no key of this version: the run can be evaluated, but not resumed; begin a new one"
            )
        for key in unknown:
            _remove(loaded, key)
        for _, field, _, within in settings(schema) if whole else ():
            if not within._get_node(field.name)._is_none():  # what is null by default may be missing, in an older run
                within[field.name] = MISSING
        cfg = OmegaConf.merge(schema, loaded)
        if missing := OmegaConf.missing_keys(cfg):
            raise ConfigError(f"{min(missing)} has no value")
        check_limits(cfg)
    except CheckpointError:
        raise
    except (yaml.YAMLError, OmegaConfBaseException, LookupError, AttributeError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path}: not the configuration of a run of this version ({reason})") from None
    return cfg


def _unknown_keys(values: Any, schema: Any, prefix: str = "") -> Iterator[str]:
    """Yield the keys of stored values, with dots, that a structured configuration does not have."""
    known = {field.name for field in fields(cast(Any, OmegaConf.get_type(schema)))}
    for name in values:
        if name not in known:
            yield f"{prefix}{name}"
            continue
        inner = schema._get_node(name)
        if is_dataclass(OmegaConf.get_type(inner)) and OmegaConf.is_dict(values[name]):
            yield from _unknown_keys(values[name], inner, f"{prefix}{name}.")


def _remove(values: Any, key: str) -> None:
    group, _, name = key.rpartition(".")
    within = OmegaConf.select(values, group) if group else values
    del within[name]


def trust_modules_of(values: Any) -> None:
    """Let stored configurations name the modules that this one, which a user has written, names."""
    trust(*(module for _, module in own_modules(values)))


def own_modules(values: Any) -> Iterator[tuple[str, str]]:
    """Yield the keys that name a module outside this project and its plugins, each with the module."""

    def value(group: str, key: str) -> Any:
        return (values.get(group) or {}).get(key)

    names = [(ALGORITHMS, value("algo", "name")), (OBJECTIVES, value("objective", "name"))]
    names += [(NETWORKS, value("policy", "network")), *((SINKS, name) for name in value("logger", "sinks") or ())]
    for registry, name in names:
        if name is not None and not registry.is_known(str(name)):
            yield registry.key, str(name)
    sink = value("language", "logger")
    if sink not in (None, NO_SINK) and not SINKS.is_known(str(sink)):
        yield "language.logger", str(sink)
    for group, key in (("env", "factory"), ("env", "control"), ("env", "id"), ("reward", "rule"), ("reward", "count")):
        module = str(value(group, key)).rpartition(":")[0]
        if module and not module.startswith("drest_torch.envs.tasks."):
            yield f"{group}.{key}", module
