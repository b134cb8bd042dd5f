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
from drest_torch.algos.networks.precision import FLOAT32
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.config.checks import check_limits
from drest_torch.config.logger import NO_SINK, SINKS
from drest_torch.config.reading import read_config, settings
from drest_torch.config.schema import PLACES, Config, PlaceConfig
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.files import write_whole
from drest_torch.registry import refuse_foreign, trust, without_working_directory

FUNCTIONS = (("env", "factory"), ("env", "control"), ("env", "id"), ("reward", "rule"), ("reward", "count"))
"""The groups and keys of values that can name a function of a module."""


SAYS_NOTHING = object()
FORMER: dict[str, Any] = {
    "algo.adam_eps": 1e-5,
    "algo.entropy_end": 0.0,
    "algo.gradient": "softmax",
    "algo.lr_end": 0.0,
    "algo.muon_lr_end": 0.0,
    "env.chance": 1.0,
    "env.quantile": 1.0,
    "env.reference_steps": None,
    "env.standardise": True,
    "logger.entity": SAYS_NOTHING,
    "logger.name": SAYS_NOTHING,
    "logger.tags": SAYS_NOTHING,
    "policy.private_draws": SAYS_NOTHING,
    "policy.private_kind": "bits",
    "reward.committed": False,
}
"""The keys that earlier versions had, each with the value that it always has now: with it a run can go on."""

ADDED = {"precision": FLOAT32}
"""The keys of the top level that runs of earlier versions do not have, each with the value that these runs had."""


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
    for key, value in ADDED.items():
        loaded.setdefault(key, value)
    if "language" in loaded:
        raise ConfigError("it is that of a language model, which `drest language` reads")
    return Config(
        algo=ALGORITHMS[loaded.algo.name].Config(),
        objective=OBJECTIVES[loaded.objective.name].Config(),
        env=PLACES[loaded.env.name](),
        run_dir="runs/earlier",  # its default is a text that only a command fills in
    )


@without_working_directory()
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
        if whole:
            _ask_for_all(schema)
        _leave_out_unknown_keys(loaded, schema, allowed=not whole)
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


def _ask_for_all(schema: Any) -> None:
    """Take the defaults of a structured configuration away; a null may be of a key that an older run does not have."""
    for _, field, _, within in settings(schema):
        if not within._get_node(field.name)._is_none():
            within[field.name] = MISSING


def _leave_out_unknown_keys(values: Any, schema: Any, prefix: str = "", *, allowed: bool) -> None:
    """Delete the stored values whose keys a structured configuration does not have.

    If these are not ``allowed``, only those are that make no difference; any other is refused.
    """
    kind: Any = OmegaConf.get_type(schema)
    known = {field.name for field in fields(kind)}
    for name in list(values):
        key = f"{prefix}{name}"
        if name not in known:
            if not allowed and not _makes_no_difference(key, values[name], kind):
                raise ConfigError(f"{key} is no key of this version: the run can be evaluated, not resumed; begin anew")
            del values[name]
            continue
        inner = schema._get_node(name)
        if is_dataclass(OmegaConf.get_type(inner)) and OmegaConf.is_dict(values[name]):
            _leave_out_unknown_keys(values[name], inner, f"{key}.", allowed=allowed)


def _makes_no_difference(key: str, value: Any, kind: type) -> bool:
    """Return whether a run without a key that it has does the same."""
    if kind is PlaceConfig:  # earlier runs in gridworlds had the keys of other environments
        return True
    return key in FORMER and FORMER[key] in (value, SAYS_NOTHING)


def trust_modules_of(values: Any) -> None:
    """Let stored configurations name the modules that this one, which a user has written, names."""
    trust(*(module for _, module in own_modules(values)))


def own_modules(values: Any) -> Iterator[tuple[str, str]]:
    """Yield the keys that name a module outside this project and its plugins, each with the module."""

    def value(group: str, key: str) -> Any:
        return (values.get(group) or {}).get(key)

    names = [
        (ALGORITHMS, value("algo", "name")),
        (OBJECTIVES, value("objective", "name")),
        (NETWORKS, value("policy", "network")),
    ]
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
