"""Put configurations together from `configs/`: the one place where Hydra composes, for commands, studies and tests."""

from __future__ import annotations

import copy
import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.config.logger import SINKS
from drest_torch.config.reading import GROUPS, flattened, quoted, unreadable
from drest_torch.config.schema import PLACES, CheckConfig, Config, EnvConfig, EvaluateConfig, config_folder
from drest_torch.config.suggestions import nearest_keys
from drest_torch.envs.levels import WORLDS
from drest_torch.errors import ConfigError

VERSION_BASE = "1.3"
STUDIES = Path(__file__).parents[1] / "studies"
TYPES = {
    "BooleanNode": "true or false",
    "FloatNode": "a number",
    "IntegerNode": "a whole number, such as 1000000",
    "ListConfig": "a list, such as [1,2]",
    "StringNode": "a text",
}
"""The types of values by the names of OmegaConf's nodes."""
MODULES = {"algo": ALGORITHMS, "objective": OBJECTIVES, "policy": NETWORKS, "logger": SINKS}
"""The groups whose options are modules; one has a file if it has values of its own."""


def compose(*overrides: str, name: str = "config", values: Any = None) -> Any:
    """Return the configuration that a command has with these arguments.

    ``name`` is that of the command's yaml file; with ``config`` it is a `Config`. ``values`` are nested as in the yaml
    files (``{"policy": {"width": 128}}``) and set last. The schemas of studies have to be registered before
    (`register`). Within a command its search path holds, which ``--config-dir`` makes longer.
    """
    try:
        with _initialised() as loader:
            register(of_training=name == "config")
            arguments = implied(overrides) if name == "config" else overrides
            cfg = copy.deepcopy(_composed(loader, name, tuple(arguments)))
        return OmegaConf.merge(cfg, values) if values else cfg
    except (HydraException, OmegaConfBaseException, AssertionError, ValueError) as error:
        raise ConfigError(explain(error, overrides)) from None


def implied(overrides: Iterable[str]) -> list[str]:
    """Return the arguments of a training with what they imply: a level of one's own is no generated one."""
    given = list(overrides)
    path = next((word for word in given if re.fullmatch(r"levels\.path=.*\.txt", word)), None)
    if path is not None and not any(word.startswith("levels=") for word in given):
        given.insert(given.index(path), "levels=file")
    return given


def register(
    further: Mapping[tuple[str | None, str], type] = MappingProxyType({}), *, of_training: bool = True
) -> None:
    """Tell Hydra the schemas and recipes by (group, name), and ``further`` schemas that only one command has.

    Those ``of_training`` take seconds, as all algorithms are imported for them.
    """
    store = ConfigStore.instance()
    for (group, name), schema in {**_schemas(of_training), **_recipes(), **further}.items():
        if _registered.get((group, name)) != schema:  # to tell Hydra takes a fifth of the time to compose
            _composed.cache_clear()  # what is kept was composed of the values before
            package = "_global_" if str(group).startswith("recipe/") else "levels" if group == "levels/kind" else None
            store.store(group=group, name=name, node=schema, package=package)
            _registered[group, name] = schema


_registered: dict[tuple[str | None, str], Any] = {}


@lru_cache(maxsize=2)
def _schemas(of_training: bool) -> dict[tuple[str | None, str], Any]:
    """Return the dataclass with which the options of a group begin, and options that need no file: the paper's worlds,
    and modules."""
    found: dict[tuple[str | None, str], Any] = {
        (None, "base_evaluate"): EvaluateConfig,
        (None, "base_check"): CheckConfig,
    }
    found |= {("env", f"base_{name}"): schema for name, schema in PLACES.items()}
    found["levels/kind", "generated"] = {}
    found["levels/kind", "worlds"] = {"generator": None, "train": 0, "selection": 0, "test": 0}
    found |= {("levels", name): {"defaults": [{"override kind": "worlds"}], "name": name} for name in WORLDS}
    if not of_training:
        return found
    found[None, "base_config"] = Config
    found |= {("algo", f"base_{name}"): ALGORITHMS[name].Config for name in ALGORITHMS}
    found |= {("objective", f"base_{name}"): OBJECTIVES[name].Config for name in OBJECTIVES}
    found |= {("objective", name): {"defaults": [f"base_{name}"], "name": name} for name in OBJECTIVES}
    own: dict[tuple[str, str], Any] = {("logger", name): {"sinks": {name: None}} for name in SINKS.own()}
    own |= {("policy", name): {"defaults": [{"override kind": name}], "network": name} for name in NETWORKS.own()}
    for name in ALGORITHMS.own():
        own["algo", name] = {"defaults": [f"base_{name}", {"override kind": name}], "name": name}
    return found | {(group, name): values for (group, name), values in own.items() if name not in _files(group)}


@lru_cache(maxsize=1)
def _recipes() -> dict[tuple[str | None, str], Any]:
    found = OmegaConf.to_container(OmegaConf.load(config_folder() / "recipes.yaml"))
    paths = {name.rpartition("/")[::2]: values for name, values in cast("dict[str, Any]", found).items()}
    return {(f"recipe/{group}", name): values for (group, name), values in paths.items()}


def options(group: str) -> dict[str, Path]:
    """Return the yaml files of a group's options by their names, or their modules; a world of the paper has none."""
    found = {name: Path(name) for name in WORLDS} if group == "levels" else {}
    if group == "study":
        found = {page.stem: page.with_suffix(".py") for page in STUDIES.glob("*.md")}
    if group in MODULES:
        names = OBJECTIVES if group == "objective" else MODULES[group].own()
        found = {name: Path(str(MODULES[group][name].__file__)) for name in names}
    return dict(sorted((found | _files(group)).items()))


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
    folder, running = config_folder(), GlobalHydra.instance().hydra
    if running is not None:
        searched = running.config_loader.get_search_path().get_path()
        if folder in [Path(entry.path.removeprefix("file://")) for entry in searched]:
            yield running
            return
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(folder), version_base=VERSION_BASE):
            yield folder
    finally:
        GlobalHydra.instance().hydra = running


def recipes(cfg: Any) -> list[str]:
    """Return a line for each recipe that the running command has taken, with those of its values that hold."""
    lines, chosen = [], sorted(HydraConfig.get().runtime.choices.items())
    for group, name in (each for each in chosen if each in _recipes()):
        values = flattened({key: each for key, each in _recipes()[group, name].items() if key != "defaults"})
        taken = [f"{key}={value}" for key, value in values.items() if OmegaConf.select(cfg, key) == value]
        lines += [f"recipe {group.removeprefix('recipe/')}/{name}: {' '.join(taken)}"] if taken else []
    return lines


# --------------------------------------------------------------------------------------- mistakes


KEY = r"-|~[\w$]|(\+{0,2}[\w$][\w$./@:-]*)="
"""The beginning of an argument of Hydra's that can be right; of an option that is not ours to read, the dash."""


def explain(error: Exception, arguments: Sequence[str] = ()) -> str:
    """Say in one sentence why these arguments make no configuration, and what is right."""
    for argument in [*arguments, *([error.override] if isinstance(error, OverrideParseException) else [])]:
        if not re.match(KEY, argument):
            return f"{argument:.80}: expected KEY=VALUE; --help prints the keys"
    if isinstance(error, OverrideParseException):
        return unreadable(error.override)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        return _wrong_option(error.missing_cfg_file, list(error.options))
    text = " ".join(str(error).split())
    cause = error if isinstance(error, OmegaConfBaseException) else error.__cause__
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _wrong_key(cause.full_key or "", cause.parent_node._get_root(), arguments)
    if isinstance(cause, ValidationError):
        reason = str(cause).splitlines()[0]
        given = text.removeprefix("Error merging override ").lstrip("+") if cause is not error else cause.full_key
        wanted = TYPES.get(type(cause.child_node).__name__)
        return f"{given}; expected {wanted}" if wanted and cause is not error else f"{given}: {reason}".lstrip(": ")
    if isinstance(error, AttributeError) and (null := re.search("full_key: (\\S+)", text)):  # an error of OmegaConf
        return f"{null[1]} is null here, and cannot be set on the command line; set it in a yaml file of your own"
    if isinstance(error, AssertionError):  # OmegaConf's own
        return "a key was set within one that is null, as levels.generator is of levels that are not generated"
    if text.startswith("Ambiguous value"):
        argument = text.split("'", 1)[1].partition("' ")[0]
        has_text = re.search("[A-Za-z]", argument.partition("=")[2])
        remedy = f", or a text in quotes: {shlex.quote(quoted(argument))}" if has_text else ""
        return f"{argument}; several values are a list, KEY=[A,B], or one run each with -m{remedy}"
    if text.startswith("Error merging override "):
        return f"{text.removeprefix('Error merging override ')}; expected a value of another kind; --help says of which"
    return _wrong_group(text, arguments) or text


def _wrong_group(text: str, arguments: Sequence[str]) -> str | None:
    """Say which argument chooses an option of a group that the command does not have, or none where it has to."""
    if unknown := re.match("Could not (?:override|delete) '([^']*)'", text):
        return f"{unknown[1]}: no such group of values in this command; --help prints what there is"
    if not re.search("override must be a string|Error resolving interpolation|while composing config", text):
        return None
    for argument in arguments:
        key, _, value = argument.lstrip("+").partition("=")
        is_text = re.match("[A-Za-z_./]", value) and value.lower() not in ("null", "true", "false")
        if key in (*GROUPS, "study") and not is_text and not (key == "logger" and value.startswith("[")):
            return f"{argument}; expected the name of an option, as in {key}=NAME; --help prints them"
    return None


def _wrong_option(path: str, found: list[str]) -> str:
    group, _, name = path.rpartition("/") if path.startswith("hydra/") else path.partition("/")
    if group == "levels" and Path(name).suffix in (".txt", ".json", ".jsonl"):
        return f"levels={name}; a file of levels is levels.path={name}"
    if group == "env" and re.search(r"-v\d+$", name):
        return f"env={name}; the id of a Gymnasium environment is given with env=gymnasium env.id={name}"
    real = [option for option in found if not option.startswith(("_", "base_"))]
    return f"{group}={name}; expected one of {', '.join(real)}{_did_you_mean(difflib.get_close_matches(name, real, 1))}"


def _wrong_key(key: str, configuration: Any, arguments: Sequence[str]) -> str:
    """Name the nearest key of a configuration, which has no ``key``: that is where an argument leaves it."""
    known = [
        name
        for name in keys_of(OmegaConf.to_container(configuration))
        if name.startswith("hydra.") == key.startswith("hydra.")
    ]
    written = (argument.lstrip("+~").partition("=")[0] for argument in arguments)
    whole = next((name for name in written if f"{name}.".startswith(f"{key}.")), key)
    group, _, name = whole.partition(".")
    if group == "env" and name in EnvConfig.__dataclass_fields__:
        other = "torchrl" if name == "factory" else "gymnasium"
        return f"{whole}: no key of env=gridworld; choose another environment, as env={other}"
    return f"{whole}: no such key{_did_you_mean(nearest_keys(whole, known))}; --cfg job prints all keys"


def _did_you_mean(names: list[str]) -> str:
    return f" (did you mean {' or '.join(names)}?)" if names else ""


def keys_of(values: Any, prefix: str = "") -> list[str]:
    """Return the keys of nested dictionaries, with dots."""
    if not isinstance(values, dict):
        return []
    inner = (key for name, value in values.items() for key in keys_of(value, f"{prefix}{name}."))
    return [*(f"{prefix}{name}" for name in values), *inner]
