"""Put configurations together from `configs/`: the one place where Hydra composes, for commands, studies and tests."""

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
from drest_torch.config.schema import PLACES, CheckConfig, Config, EvaluateConfig, config_folder
from drest_torch.envs.levels import WORLDS
from drest_torch.errors import ConfigError

VERSION_BASE = "1.3"
STUDIES = Path(__file__).parents[1] / "studies"
MODULES = {"algo": ALGORITHMS, "objective": OBJECTIVES, "policy": NETWORKS, "logger": SINKS}
"""The groups whose options are modules; one has a file if it has values of its own."""


Place = tuple[str | None, str]
"""The group of a configuration, if it is in one, and its name."""


def compose(*overrides: str, name: str = "config", values: Any = None) -> Any:
    """Return the configuration that a command has with these arguments.

    ``name`` is that of the command's yaml file; with ``config`` it is a `Config`. ``values`` are nested as in the yaml
    files (``{"policy": {"width": 128}}``) and set last. The schemas of studies have to be registered before
    (`register`). Within a command its search path holds, which ``--config-dir`` makes longer.
    """
    of_training = name == "config"
    arguments = list(overrides)
    if of_training:
        arguments = implied(arguments)
    try:
        with _initialised() as loader:
            register(of_training=of_training)
            cfg: Any = copy.deepcopy(_composed(loader, name, tuple(arguments)))
        if values:
            cfg = OmegaConf.merge(cfg, values)
    except (HydraException, OmegaConfBaseException, AssertionError, ValueError) as error:
        raise ConfigError(explain(error, overrides)) from None
    return cfg


def implied(overrides: Iterable[str]) -> list[str]:
    """Return the arguments of a training with what they imply: a level of one's own is no generated one."""
    given = list(overrides)
    path = next((word for word in given if re.fullmatch(r"levels\.path=.*\.txt", word)), None)
    if path is not None and not any(word.startswith("levels=") for word in given):
        given.insert(given.index(path), "levels=file")
    return given


def register(further: Mapping[Place, type] = MappingProxyType({}), *, of_training: bool = True) -> None:
    """Tell Hydra the schemas and recipes, and ``further`` schemas that only one command has.

    Those ``of_training`` take seconds, as all algorithms are imported for them.
    """
    schemas = {**_schemas(), **_recipes(), **further}
    if of_training:
        schemas |= _schemas_of_training()
    store = ConfigStore.instance()
    for place, schema in schemas.items():
        if _registered.get(place) == schema:  # to tell Hydra takes a fifth of the time to compose
            continue
        _composed.cache_clear()  # what is kept was composed of the values before
        group, name = place
        store.store(group=group, name=name, node=schema, package=_package(group))
        _registered[place] = schema


_registered: dict[Place, Any] = {}


def _package(group: str | None) -> str | None:
    """Return where the values of an option go, if it is not to the keys of its group."""
    if group is not None and group.startswith("recipe/"):
        return "_global_"
    if group == "levels/kind":
        return "levels"
    return None


@lru_cache(maxsize=1)
def _schemas() -> dict[Place, Any]:
    """Return the dataclasses with which options begin, and options that need no file: the paper's worlds."""
    schemas: dict[Place, Any] = {(None, "base_evaluate"): EvaluateConfig, (None, "base_check"): CheckConfig}
    for name, place in PLACES.items():
        schemas["env", f"base_{name}"] = place
    schemas["levels/kind", "generated"] = {}
    schemas["levels/kind", "worlds"] = {"generator": None, "train": 0, "selection": 0, "test": 0}
    for name in WORLDS:
        schemas["levels", name] = {"defaults": [{"override kind": "worlds"}], "name": name}
    return schemas


@lru_cache(maxsize=1)
def _schemas_of_training() -> dict[Place, Any]:
    """Return the dataclasses of training, and its options that are modules and need no file."""
    schemas: dict[Place, Any] = {(None, "base_config"): Config}
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
    """Return the names of a group's modules that have no yaml file."""
    files = _files(group)
    return [name for name in MODULES[group].builtin_names() if name not in files]


@lru_cache(maxsize=1)
def _recipes() -> dict[Place, Any]:
    """Return the recipes of ``recipes.yaml``, which lie in groups of their own."""
    recipes: Any = OmegaConf.to_container(OmegaConf.load(config_folder() / "recipes.yaml"))
    placed: dict[Place, Any] = {}
    for path, values in recipes.items():
        group, _, name = path.rpartition("/")
        placed[f"recipe/{group}", name] = values
    return placed


def options(group: str) -> dict[str, Path]:
    """Return the yaml files of a group's options by their names, or their modules; a world of the paper has none."""
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
    """Return the module of a study, which is beside its page, or the package that has the page in it."""
    module = page.with_suffix(".py")
    if module.exists():
        return module
    return page.with_name("__init__.py")


def _files(group: str) -> dict[str, Path]:
    return {path.stem: path for path in (config_folder() / group).glob("*.yaml")}


@lru_cache(maxsize=256)
def _composed(loader: Any, name: str, overrides: tuple[str, ...]) -> DictConfig:
    """Compose once for the same arguments: Hydra takes a tenth of a second, and a study has many runs.

    What it composes depends on the search path that ``loader`` stands for, too.
    """
    return hydra.compose(name, list(overrides))


@contextmanager
def _initialised() -> Iterator[Any]:
    """Have Hydra find our files, as it does already within our commands; yields what stands for its search path."""
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
    """Return the folders in which a command looks for yaml files."""
    entries = running.config_loader.get_search_path().get_path()
    return [Path(entry.path.removeprefix("file://")) for entry in entries]


def recipes(cfg: Any) -> list[str]:
    """Return a line for each recipe that the running command has taken, with those of its values that hold."""
    lines = []
    for place in sorted(HydraConfig.get().runtime.choices.items()):
        if place not in _recipes():
            continue
        group, name = place
        recipe = {key: value for key, value in _recipes()[place].items() if key != "defaults"}
        values = flattened(recipe)
        taken = [f"{key}={value}" for key, value in values.items() if OmegaConf.select(cfg, key) == value]
        if taken:
            lines.append(f"recipe {group.removeprefix('recipe/')}/{name}: {' '.join(taken)}")
    return lines + _without_recipe(cfg)


TOLD = ("policy.network", "reward.group", "env_steps")
"""The keys whose values are told of an algorithm without a recipe, besides its own."""


def _without_recipe(cfg: Any) -> list[str]:
    """Return a line if no recipe is made for the algorithm: it then trains with the defaults of dataclasses."""
    option = HydraConfig.get().runtime.choices.get("algo")
    kind = HydraConfig.get().runtime.choices.get("algo/kind")
    kinds = {name.partition("_on_")[0].partition("_in_")[0] for _, name in _recipes()}
    if kind in kinds or option in _files("algo"):
        return []
    values = {f"algo.{key}": value for key, value in cfg.algo.items() if key != "name"}
    values |= {key: OmegaConf.select(cfg, key) for key in TOLD}
    told = " ".join(f"{key}={typed(value)}" for key, value in values.items())
    remedy = f"an algo/{option}.yaml with `override kind: ppo` takes the values of PPO"
    return [f"no recipe for algo={option}, so it trains with defaults: {told}; {remedy}"]
