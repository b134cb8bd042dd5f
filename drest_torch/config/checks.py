"""Checks of configurations; each error is one sentence with the key and the remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, cast, get_args

import torch
from omegaconf import ListConfig, OmegaConf
from omegaconf.errors import ValidationError

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.base import Algorithm, Need, Share
from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.base import HEAD_DEPTH, HEAD_WIDTH, requirements
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.algos.objectives.base import Objective
from drest_torch.config.logger import SINKS
from drest_torch.config.reading import flattened, settings, typed
from drest_torch.config.schema import (
    Config,
    LevelsConfig,
    copies_of,
    objective_of,
    reward_of,
    shown_features,
    variations_of,
)
from drest_torch.envs.levels import Level, features_of
from drest_torch.envs.objects import FEATURES
from drest_torch.errors import ConfigError
from drest_torch.limits import Limits, limits_of

PATHS = ("path", "selection_path", "run", "checkpoint", "out", "pictures", "animation", "model", "tasks", "picture")
"""Keys of paths, which must not be empty."""
LARGEST = 1 << 63
"""Exclusive upper bound of whole numbers, as tensors store 64-bit integers."""


def check_limits(cfg: Any, prefix: str = "") -> None:
    """Raise for values outside the limits of their fields, including nested configurations.

    ``prefix`` precedes the keys in messages (``study.``). Missing values are skipped.
    """
    if not OmegaConf.is_config(cfg):
        cfg = OmegaConf.structured(cfg)
    for key, field, hint, within in settings(cfg, prefix):
        _check_keys(within, key.removesuffix(field.name))
        if OmegaConf.is_missing(within, field.name):
            continue
        value = within[field.name]
        is_group = is_dataclass(hint) or any(map(is_dataclass, get_args(hint)))
        # OmegaConf does not compare the value of a reference with the schema.
        if is_group and OmegaConf.is_interpolation(within, field.name):
            raise ConfigError(f"{key}={value}; expected keys with values, not a text")
        if field.name in PATHS and isinstance(value, str):
            _check_path(key, value)
        limits = limits_of(field)
        if limits is not None:
            _check_number(key, value, limits)


def _check_keys(within: Any, start: str) -> None:
    """Raise for keys that a dataclass does not have, which ``+KEY=VALUE`` can add."""
    kind: Any = OmegaConf.get_type(within)
    unknown = set(within) - {field.name for field in fields(kind)}
    if unknown:
        raise ConfigError(f"{start}{min(unknown)}: no such key; leave it out (--cfg job prints all keys)")


def _check_path(key: str, path: str) -> None:
    """Raise for a path that is empty or has a null byte."""
    if "\0" in path or not path.strip():
        raise ConfigError(f"{key}={path}; expected a path, or leave it out")


def _check_number(key: str, value: Any, limits: Limits) -> None:
    """Raise for a number, or a list with a number, outside the limits; null is always allowed."""
    values = [value]
    if isinstance(value, ListConfig):
        values = list(value)
    numbers = [number for number in values if number is not None]
    if any(type(number) is int and abs(number) >= LARGEST for number in numbers):
        raise ConfigError(f"{key}={value!s:.40}; expected {limits}, below 2^63")
    if not all(limits.allow(number) for number in numbers):
        raise ConfigError(f"{key}={value!s:.40}; expected {limits}")


def objective_with(values: Mapping[str, Any]) -> Objective:
    """Return the objective that these values name and set, within its limits."""
    module = OBJECTIVES[values["name"]]
    config: Any = OmegaConf.structured(module.Config)
    names = [field.name for field in fields(module.Config)]
    for key, value in values.items():
        if key not in names:
            raise ConfigError(f"objective.{key}: no such key; expected some of {', '.join(names)}")
        try:
            config[key] = value
        except ValidationError:
            raise ConfigError(f"objective.{key}={value}; expected {_expected(module.Config, key)}") from None
    check_limits(config, "objective.")
    objective: Objective = module.Objective(config)
    return objective


def _expected(kind: type, key: str) -> str:
    """Return what a field expects, for messages."""
    (of_key,) = [field for field in fields(kind) if field.name == key]
    return str(limits_of(of_key) or of_key.type)


def check_run(cfg: Config) -> None:
    """Raise for invalid configurations of a run before its levels are generated, which takes seconds."""
    check_limits(cfg)
    ALGORITHMS.check(cfg.algo.name)
    NETWORKS.check(cfg.policy.network)
    OBJECTIVES.check(cfg.objective.name)
    for name in cfg.logger.sinks:
        SINKS.check(name)
    reward_of(cfg).check_custom_rules()
    device_of(cfg.device, here=False)  # the run may be on another machine
    if not is_dataclass(OmegaConf.get_type(cfg.env)):
        raise ConfigError("env has no kind of environment; its yaml file has to begin with defaults: [gymnasium]")
    task, algorithm = TASK_CHECKS[cfg.env.name], ALGORITHMS[cfg.algo.name].Algorithm
    objective = None
    if cfg.objective.name != "drest":
        objective = objective_of(cfg)
    needs = chain(algorithm.needs(cfg, objective), task.needs(cfg), _dropout_needs(cfg, algorithm), _head_needs(cfg))
    for key, needed, why in needs:  # each need assumes the earlier ones
        value = OmegaConf.select(cast(Any, cfg), key)
        if value != needed:
            name = key.removesuffix(".name")
            raise ConfigError(f"{name}={typed(value)}{why}; use {name}={typed(needed)}")
    for (key, number), (total_key, total) in algorithm.shares(task.shares(cfg)):
        if total % number:
            raise ConfigError(
                f"{key}={number} does not divide {total_key}={total}; use a divisor, or a multiple of {number}"
            )


def _dropout_needs(cfg: Config, algorithm: type[Algorithm]) -> Iterator[Need]:
    """Yield the requirement of algorithms whose updates train the whole network."""
    if not algorithm.drops_units:
        yield "policy.dropout", 0.0, f", but the updates of algo={cfg.algo.name} drop no units"


def _head_needs(cfg: Config) -> Iterator[Need]:
    """Yield the requirements of networks without a head."""
    network = cfg.policy.network
    if not requirements(network).reads_maps:
        for key, needed in (("head_width", HEAD_WIDTH), ("head_depth", HEAD_DEPTH)):
            yield f"policy.{key}", needed, f", but policy.network={network} has no head that reads encodings of maps"


def _environment_needs(cfg: Config) -> Iterator[Need]:
    """Yield the requirements of a run in a third-party environment."""
    place, required = f"env={cfg.env.name}", requirements(cfg.policy.network)
    _check_best(cfg.env.best)
    if required.observations or required.symmetries:
        yield "policy.network", "mlp", " reads the maps of gridworlds"
    yield "start_from", None, ", but only runs in gridworlds can begin with another agent"
    yield "reward.pays", "actual", f", but {place} has no coins on a map"
    yield "reward.ends", "actual", f", but {place} has no map that says what the longest length is"
    yield "device", "cpu", f", which {place} does not offer"
    yield "patience", None, f", but {place} has no selection levels"
    yield "objective.name", "drest", f" with {place}, which has the return of the reward alone"
    if cfg.env.workers:
        yield "env.workers", copies_of(cfg), f" with env.copies={copies_of(cfg)}, and each has a process of its own"
    if cfg.reward.counting == "sequential":
        played = copies_of(cfg) * cfg.reward.episodes_per_meta
        yield "algo.episodes", played, f" with env.copies={copies_of(cfg)}, which play a meta-episode each"


def _check_best(best: Any) -> None:
    """Raise if m of each length is not a list of numbers."""
    is_list = isinstance(best, ListConfig) and all(isinstance(most, int | float) for most in best)
    if not is_list and best is not None:
        raise ConfigError(f"env.best={best}; expected a list of numbers, one for each length, or null")


def _gridworld_needs(cfg: Config) -> Iterator[Need]:
    """Yield the requirements of a run in gridworlds, with networks that read maps and exact evaluation."""
    policy = cfg.policy
    network, required = f"policy.network={policy.network}", requirements(policy.network)
    if cfg.levels.path is None and cfg.levels.name == "own":
        yield "levels.name", "generated", " are the test levels of a run that is evaluated"
    if required.observations and policy.observation not in required.observations:
        yield "policy.observation", required.observations[0], f", which {network} cannot read"
    if required.remembers and cfg.sampled is None:
        yield "sampled", 256, f", but {network} remembers earlier steps, so that it cannot be evaluated exactly"
    multiple, least = required.width_multiple, required.min_depth
    for key in ("width", "head_width"):
        width = math.ceil(getattr(policy, key) / multiple) * multiple
        yield f"policy.{key}", width, f", but {network} has a multiple of {multiple}"
    yield "policy.depth", max(policy.depth, least), f", but {network} has at least {least}"
    larger = [key for key in ("by_chance", "outcomes", "symmetries", "fresh") if getattr(cfg.levels, key)]
    if variations_of(cfg) is not None:
        larger.append("vary")
    for key in larger:
        if policy.observation == "vector":
            yield "policy.observation", "grid", f" shows one level and no chances, and levels.{key} asks for more"
    if policy.observation == "vector":
        yield "levels.sampler", "uniform", ", but policy.observation=vector has a single level to sample"


def _gridworld_shares(cfg: Config) -> Iterator[Share]:
    """Yield the divisors of the mini-episodes in a batch: a group or a meta-episode."""
    yield _meta_episode(cfg), ("algo.episodes", cfg.algo.episodes)


def _environment_shares(cfg: Config) -> Iterator[Share]:
    """Yield the divisors of the mini-episodes in a batch: a group or a meta-episode, and the copies."""
    copies = ("env.copies", copies_of(cfg))
    yield _meta_episode(cfg), ("algo.episodes", cfg.algo.episodes)
    yield copies, ("algo.episodes", cfg.algo.episodes)
    if cfg.reward.counting == "averaged":
        yield _meta_episode(cfg), copies


def _meta_episode(cfg: Config) -> tuple[str, int]:
    """Return the key and the value of the number of mini-episodes that are counted together."""
    if cfg.reward.counting == "averaged":
        return "reward.group", cfg.reward.group
    return "reward.episodes_per_meta", cfg.reward.episodes_per_meta


@dataclass(frozen=True)
class TaskChecks:
    """Requirements of a kind of task on a configuration."""

    needs: Callable[[Config], Iterator[Need]]
    shares: Callable[[Config], Iterator[Share]]
    reads_levels: bool


GRIDWORLDS = TaskChecks(_gridworld_needs, _gridworld_shares, reads_levels=True)
ENVIRONMENTS = TaskChecks(_environment_needs, _environment_shares, reads_levels=False)
TASK_CHECKS = {"gridworld": GRIDWORLDS, "gymnasium": ENVIRONMENTS, "torchrl": ENVIRONMENTS}
"""Requirements by ``env.name``."""


def check_unread(cfg: Config) -> None:
    """Raise for values of `levels` in a new run that does not read them."""
    if TASK_CHECKS[cfg.env.name].reads_levels:
        return
    defaults = _flat_levels(OmegaConf.structured(LevelsConfig)) | {"levels.name": "generated"}
    for key, value in _flat_levels(cfg.levels).items():
        if key not in defaults or value != defaults[key]:
            argument = f"{key.removesuffix('.name')}={typed(value)}"
            raise ConfigError(f"{argument} does nothing with env={cfg.env.name}; leave it out, or choose another env")


def _flat_levels(levels: Any) -> dict[str, Any]:
    """Return the values of `levels` by their keys with dots."""
    return flattened(OmegaConf.to_container(levels, resolve=True), "levels.")


def check_levels(cfg: Config, train: Sequence[Level], others: Mapping[str, Sequence[Level]]) -> None:
    """Raise for levels that do not fit the run or each other; ``others`` are the levels of further splits by name."""
    if cfg.patience is not None and not others.get("selection"):
        raise ConfigError(
            f"patience={cfg.patience}, but the run has no selection levels; set test.selection_path, choose generated "
            "levels, or leave it out"
        )
    for name, levels in others.items():
        if not levels:
            continue
        if cfg.policy.observation == "vector":
            _check_vectors(name, levels, train[0])
        features = features_of(levels) - features_of(train) - shown_features(cfg)
        if features:
            feature = min(features)
            level = next(level for level in levels if feature in level.features)
            raise ConfigError(
                f"the level {level.name} of the {name} levels has {FEATURES[feature]}, which the agent would not "
                f"observe, because no training level has any; have them in both{_shown_in_all(feature)}, or leave "
                "these levels out"
            )


def _check_vectors(name: str, levels: Sequence[Level], trained: Level) -> None:
    """Raise for levels that do not fit the paper's vector observation, which is of a single level."""
    size = attrgetter("height", "width", "num_objects")
    if len(levels) > 1 or any(size(level) != size(trained) for level in levels):
        raise ConfigError(
            f"policy.observation=vector shows one map, and the {name} levels are {len(levels)}; give a single "
            f"one, with the size and as many coins and buttons as {trained.place}, or use policy.observation=centred"
        )


def _shown_in_all(feature: str) -> str:
    """Return the remedy that shows a feature in levels without it, or an empty text."""
    if feature == "chance":
        return ", show chances in every level (levels.by_chance=true)"
    if "lottery" in feature:
        return ", show the outcomes of lotteries in every level (levels.outcomes)"
    return ""


def device_of(name: str, *, here: bool = True) -> torch.device:
    """Return the torch device of a name, or of auto; raise if it must be on this machine (``here``) and is not."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ConfigError(f"device={name}; expected cpu, cuda, cuda:N or auto")
    device = torch.device(name)
    if here and device.type == "cuda":
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            raise ConfigError(f"device={name}, but torch finds {count} CUDA devices here; use device=cpu")
    return device


def batch_shape(cfg: Config) -> tuple[int, int, int]:
    """Return the numbers of slots in a gridworld batch, of mini-episodes per slot, and of slots in a group.

    Adjacent slots of a group play the same level, and their mini-episodes are counted together.

    Most policies do not observe earlier mini-episodes. With sequential counting, the mini-episodes of a meta-episode
    are therefore played in parallel and counted in the order of the slots, unless returns extend over the meta-episode
    (``credit=meta``) or the policy is recurrent.
    """
    episodes, reward = cfg.algo.episodes, cfg.reward
    if reward.counting == "averaged":
        return episodes, 1, reward.group
    if cfg.algo.credit == "meta" or requirements(cfg.policy.network).remembers:
        return episodes // reward.episodes_per_meta, reward.episodes_per_meta, 1
    return episodes, 1, reward.episodes_per_meta
