"""Composition of configurations from `configs/` with Hydra, for commands, studies and tests."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.config.logger import SINKS
from drest_torch.config.mistakes import explain
from drest_torch.config.reading import flattened, typed
from drest_torch.config.repeating import OPTION as REPEATED
from drest_torch.config.repeating import repeat
from drest_torch.config.schema import ENV_CONFIGS, CheckConfig, Config, EvaluateConfig, config_folder
from drest_torch.envs.levels import WORLDS
from drest_torch.errors import ConfigError

VERSION_BASE = "1.3"
STUDIES = Path(__file__).parents[1] / "studies"
MODULES = {"algo": ALGORITHMS, "objective": OBJECTIVES, "policy": NETWORKS, "logger": SINKS}
"""Groups whose options are modules; an option has a yaml file if it changes defaults."""


OptionKey = tuple[str | None, str]
"""Group of a configuration, or None, and its name."""


def compose(*overrides: str, name: str = "config", values: Any = None) -> Any:
    """Return the configuration of a command with these arguments.

    ``name`` is the command's yaml file; ``config`` yields a `Config`. ``values`` are nested as in yaml files
    (``{"policy": {"width": 128}}``) and are set last. Schemas of studies must be registered first (`register`).
    Within a running command, its search path applies, including ``--config-dir``.
    """
    of_training = name == "config"
    arguments = list(overrides)
    try:
        with _initialised() as loader:
            if of_training:
                arguments = expanded(arguments)
            register(of_training=of_training)
            cfg: Any = copy.deepcopy(_composed(loader, name, tuple(arguments)))
        if values:
            cfg = OmegaConf.merge(cfg, values)
    except (HydraException, OmegaConfBaseException, AssertionError, ValueError) as error:
        raise ConfigError(explain(error, overrides)) from None
    return cfg


def implied(overrides: Iterable[str]) -> list[str]:
    """Return the arguments of a training with ``levels=file`` added if a level file is given."""
    arguments = list(overrides)
    path = next((word for word in arguments if re.fullmatch(r"levels\.path=.*\.txt", word)), None)
    if path is not None and not any(word.startswith("levels=") for word in arguments):
        arguments.insert(arguments.index(path), "levels=file")
    return arguments


def expanded(overrides: Iterable[str]) -> list[str]:
    """Return the arguments of a training with those that others stand for; register the options of a repeated run."""
    arguments, of_run = repeat(implied(overrides))
    if of_run:
        register(of_run)
    return arguments


def register(further: Mapping[OptionKey, type] = MappingProxyType({}), *, of_training: bool = True) -> None:
    """Register schemas and recipes with Hydra, and ``further`` schemas of a single command.

    Schemas ``of_training`` take seconds, because they import all algorithms.
    """
    schemas = {**_schemas(), **_recipes(), **further}
    if of_training:
        schemas |= _schemas_of_training()
    store = ConfigStore.instance()
    for place, schema in schemas.items():
        if _registered.get(place) == schema:  # registration takes a fifth of the time to compose
            continue
        _composed.cache_clear()  # cached configurations have the old values
        group, name = place
        store.store(group=group, name=name, node=schema, package=_package(group))
        _registered[place] = schema


_registered: dict[OptionKey, Any] = {}


def _package(group: str | None) -> str | None:
    """Return Hydra's package of an option, or None for the keys of its group."""
    if group == "from" or (group is not None and group.startswith("recipe/")):
        return "_global_"
    if group == "levels/kind":
        return "levels"
    return None


@lru_cache(maxsize=1)
def _schemas() -> dict[OptionKey, Any]:
    """Return the dataclasses that options build on, and the options without a file: the paper's worlds."""
    schemas: dict[OptionKey, Any] = {(None, "base_evaluate"): EvaluateConfig, (None, "base_check"): CheckConfig}
    for name, schema in ENV_CONFIGS.items():
        schemas["env", f"base_{name}"] = schema
    schemas["levels/kind", "generated"] = {}
    schemas["levels/vary", "custom"] = {}
    schemas["levels/kind", "worlds"] = {"generator": None, "train": 0, "selection": 0, "test": 0}
    for name in WORLDS:
        schemas["levels", name] = {"defaults": [{"override kind": "worlds"}], "name": name}
    return schemas


@lru_cache(maxsize=1)
def _schemas_of_training() -> dict[OptionKey, Any]:
    """Return the dataclasses of training, and the options that are modules without a file."""
    schemas: dict[OptionKey, Any] = {(None, "base_config"): Config}
    for name in ALGORITHMS:
        schemas["algo", f"base_{name}"] = ALGORITHMS[name].Config
    for name in OBJECTIVES:
        schemas["objective", f"base_{name}"] = OBJECTIVES[name].Config
        schemas["objective", name] = {"defaults": [f"base_{name}"], "name": name}
    for name in _without_file("logger"):
        schemas["logger", name] = {"sinks": {name: None}}
    for name in _without_file("policy"):
        schemas["policy", name] = {"defaults": [{"override kind": name}], "network": name}
    for name in _without_file("algo"):
        schemas["algo", name] = {"defaults": [f"base_{name}", {"override kind": name}], "name": name}
    return schemas


def _without_file(group: str) -> list[str]:
    """Return the modules of a group that have no yaml file."""
    files = _files(group)
    return [name for name in MODULES[group].builtin_names() if name not in files]


@lru_cache(maxsize=1)
def _recipes() -> dict[OptionKey, Any]:
    """Return the recipes of ``recipes.yaml`` by group (``recipe/…``) and name."""
    recipes: Any = OmegaConf.to_container(OmegaConf.load(config_folder() / "recipes.yaml"))
    options: dict[OptionKey, Any] = {}
    for path, values in recipes.items():
        group, _, name = path.rpartition("/")
        options[f"recipe/{group}", name] = values
    return options


def options(group: str) -> dict[str, Path]:
    """Return the options of a group by name, each with its yaml file or its module; worlds have neither."""
    modules: dict[str, Path] = {}
    if group == "levels":
        modules = {name: Path(name) for name in WORLDS}
    elif group == "study":
        modules = {page.stem: _study_of(page) for page in (*STUDIES.glob("*.md"), *STUDIES.glob("*/*.md"))}
    elif group == "objective":
        modules = {name: Path(str(OBJECTIVES[name].__file__)) for name in OBJECTIVES}
    elif group in MODULES:
        registry = MODULES[group]
        modules = {name: registry.file(name) for name in registry.builtin_names()}
    return dict(sorted((modules | _files(group)).items()))


def _study_of(page: Path) -> Path:
    """Return the module of a study from its page: a file beside it, or the package that contains it."""
    module = page.with_suffix(".py")
    if module.exists():
        return module
    return page.with_name("__init__.py")


def _files(group: str) -> dict[str, Path]:
    """Return the yaml files of a group by their names."""
    return {path.stem: path for path in (config_folder() / group).glob("*.yaml")}


@lru_cache(maxsize=256)
def _composed(loader: Any, name: str, overrides: tuple[str, ...]) -> DictConfig:
    """Return the configuration of these arguments, cached because Hydra takes a tenth of a second.

    The result also depends on the search path, which ``loader`` represents.
    """
    return hydra.compose(name, list(overrides))


@contextmanager
def _initialised() -> Iterator[Any]:
    """Initialise Hydra with our files, unless one of our commands is running; yield a key of its search path."""
    folder = config_folder()
    running = GlobalHydra.instance().hydra
    if running is not None and folder in _searched(running):
        yield running
        return
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(folder), version_base=VERSION_BASE):
            yield folder
    finally:
        GlobalHydra.instance().hydra = running


def _searched(running: Any) -> list[Path]:
    """Return the folders in which a running command searches for yaml files."""
    entries = running.config_loader.get_search_path().get_path()
    return [Path(entry.path.removeprefix("file://")) for entry in entries]


def recipes(cfg: Any) -> list[str]:
    """Return a line for each recipe of the running command, with its values that were not overridden."""
    lines = []
    for option in sorted(HydraConfig.get().runtime.choices.items()):
        if option not in _recipes():
            continue
        group, name = option
        recipe = {key: value for key, value in _recipes()[option].items() if key != "defaults"}
        values = flattened(recipe)
        effective = [f"{key}={value}" for key, value in values.items() if OmegaConf.select(cfg, key) == value]
        if effective:
            lines.append(f"recipe {group.removeprefix('recipe/')}/{name}: {' '.join(effective)}")
    return lines + _without_recipe(cfg)


SHARED_KEYS = ("policy.network", "reward.group", "env_steps")
"""Further keys whose values are printed for an algorithm without a recipe."""


def _without_recipe(cfg: Any) -> list[str]:
    """Return a line if the algorithm has no recipe and thus trains with the defaults of dataclasses."""
    option = HydraConfig.get().runtime.choices.get("algo")
    kind = HydraConfig.get().runtime.choices.get("algo/kind")
    kinds = {name.partition("_on_")[0].partition("_in_")[0] for _, name in _recipes()}
    if kind in kinds or option in _files("algo") or option == REPEATED:
        return []
    values = {f"algo.{key}": value for key, value in cfg.algo.items() if key != "name"}
    values |= {key: OmegaConf.select(cfg, key) for key in SHARED_KEYS}
    settings = " ".join(f"{key}={typed(value)}" for key, value in values.items())
    remedy = f"an algo/{option}.yaml with `override kind: ppo` takes the values of PPO"
    return [f"no recipe for algo={option}, so it trains with defaults: {settings}; {remedy}"]
