"""Refuse configurations that cannot be run, with one sentence that names the key and the remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, cast, get_args, get_type_hints

import torch
from omegaconf import DictConfig, ListConfig, OmegaConf

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.base import requirements
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.config.logger import SINKS
from drest_torch.config.schema import Config, copies_of, in_gridworld, learns_from, objective_of, shown_features
from drest_torch.envs.levels import Level, features_of
from drest_torch.envs.objects import FEATURES
from drest_torch.errors import ConfigError, shown
from drest_torch.limits import Limits, limits_of

MAX_PRIVATE_BITS = 10
"""Evaluation goes through all 2^n settings of n bits."""
PATHS = ("path", "selection_path", "run", "checkpoint", "out", "pictures", "animation")
"""The keys of paths, which must not be empty."""


def check_limits(cfg: Any, prefix: str = "") -> None:
    """Refuse a value outside the limits of its field, here and in every structured configuration within.

    ``prefix`` stands before the keys in messages (``study.``). Values that are missing are passed over.
    """
    cfg = cfg if OmegaConf.is_config(cfg) else OmegaConf.structured(cfg)
    kind = OmegaConf.get_type(cfg)
    if isinstance(cfg, ListConfig):
        for index, value in enumerate(cfg):
            if OmegaConf.is_config(value):
                check_limits(value, f"{prefix[:-1]}[{index}].")
        return
    if not is_dataclass(kind):
        return
    if extra := sorted(set(cfg) - {each.name for each in fields(kind)}):  # `+KEY=VALUE` can add what nothing reads
        raise ConfigError(f"{prefix}{extra[0]}: no such key; leave it out (--cfg job prints all keys)")
    hints = get_type_hints(kind)
    for each in fields(kind):
        if OmegaConf.is_missing(cfg, each.name):
            continue
        value = cfg[each.name]
        if OmegaConf.is_interpolation(cfg, each.name):  # whose value OmegaConf has not compared with the schema
            wanted = [one for one in (hints[each.name], *get_args(hints[each.name])) if is_dataclass(one)]
            if wanted and not (OmegaConf.is_dict(value) and OmegaConf.get_type(value) in wanted):
                raise ConfigError(f"{prefix}{each.name}={shown(str(value))}; expected keys with values, not a text")
        if each.name in PATHS and isinstance(value, str) and ("\0" in value or not value.strip()):
            raise ConfigError(f"{prefix}{each.name}={shown(value)}; expected a path, or leave it out")
        if limits := limits_of(each):
            _check_value(f"{prefix}{each.name}", value, limits)
        elif is_dataclass(inner := OmegaConf.get_type(cfg, each.name)) or inner is list:
            check_limits(cfg[each.name], f"{prefix}{each.name}.")


def _check_value(key: str, value: Any, limits: Limits) -> None:
    values = list(value.values() if isinstance(value, DictConfig) else value) if OmegaConf.is_config(value) else [value]
    if any(type(one) is int and abs(one) >= 1 << 63 for one in values):
        raise ConfigError(f"{key}={value!s:.40}; expected {limits}, below 2^63")
    if not all(one is None or limits.allow(one) for one in values):
        raise ConfigError(f"{key}={value}; expected {limits}")


def check_run(cfg: Config) -> None:
    """Refuse what no run can be made of, whatever its levels: to generate levels takes seconds."""
    check_limits(cfg)
    ALGORITHMS.check(cfg.algo.name)
    NETWORKS.check(cfg.policy.network)
    _check_objective(cfg)
    for name in cfg.logger.sinks:
        SINKS.check(name)
    _device_number(cfg.device)  # whether there is such a device is known where the run is done
    if cfg.start_from is not None and not in_gridworld(cfg):
        raise ConfigError(f"start_from with env={cfg.env.name}; only runs in gridworlds can begin with another agent")
    if cfg.start_from is not None and learns_from(cfg) == "world":
        raise ConfigError(f"start_from with algo={cfg.algo.name}, which trains a table; use another algorithm")
    if not in_gridworld(cfg):
        _check_environment(cfg)
        return
    for key, kind in (("id", "gymnasium"), ("factory", "torchrl")):
        if (value := getattr(cfg.env, key)) is not None:
            raise ConfigError(f"env.{key}={value} with env=gridworld, which has none; add env={kind}")
    if cfg.levels.path is None and cfg.levels.name == "own":
        raise ConfigError("levels=own are the test levels of a run that is evaluated; choose other levels to train on")
    _check_private_bits(cfg)
    if learns_from(cfg) == "mini-episodes":
        batch_shape(cfg)
    if learns_from(cfg) == "world":
        _check_table(cfg)
    _check_policy(cfg)


def check_unread(cfg: Config, default: Config) -> None:
    """Refuse values that a new run does not read: those of `env` in gridworlds, and of `levels` elsewhere.

    ``default`` is the configuration without them.
    """
    group = "env" if in_gridworld(cfg) else "levels"
    given, usual = (OmegaConf.to_container(cast(Any, each)[group], resolve=True) for each in (cfg, default))
    for key, value in cast(dict[str, Any], given).items():
        if value != cast(dict[str, Any], usual)[key] and key not in ("title", "id", "factory"):
            name = group if key == "name" else f"{group}.{key}"
            text = shown(str(value)) if not isinstance(value, dict) else "…"
            raise ConfigError(
                f"{name}={text} does nothing with env={cfg.env.name}; leave it out, or choose another env"
            )


def _check_objective(cfg: Config) -> None:
    """Refuse an objective that is not there, or that the algorithm cannot know."""
    OBJECTIVES.check(cfg.objective.name)
    if cfg.objective.name == "drest" or learns_from(cfg) == "levels":
        return
    name, env, counting = f"objective={cfg.objective.name}", cfg.env.name, cfg.reward.counting
    if not in_gridworld(cfg):
        raise ConfigError(f"{name} with env={env}, which has the return of the reward alone; use objective=drest")
    if learns_from(cfg) != "mini-episodes" or not objective_of(cfg).can_be_sampled():
        raise ConfigError(
            f"{name} as it is set needs the exact outcome of levels, which algo={cfg.algo.name} does not have; use "
            "algo=generalist, or algo=exact for one level"
        )
    if counting != "averaged":
        raise ConfigError(
            f"{name} compares the mini-episodes of a group, and reward.counting={counting} has no groups; use "
            "reward.counting=averaged"
        )


def _check_environment(cfg: Config) -> None:
    """Refuse what is for gridworlds alone, and values of `env` that do not go together."""
    env, name, network = cfg.env, f"env={cfg.env.name}", cfg.policy.network
    if learns_from(cfg) != "mini-episodes":
        raise ConfigError(f"algo={cfg.algo.name} knows the model of a gridworld, and {name} has none; use algo=ppo")
    if cfg.reward.pays != "actual":
        raise ConfigError(f"reward.pays={cfg.reward.pays}, but {name} has no coins on a map; use reward.pays=actual")
    if cfg.device != "cpu":
        raise ConfigError(f"device={cfg.device}, which {name} does not offer; use device=cpu")
    if requirements(network).observations or requirements(network).symmetries:
        raise ConfigError(f"policy.network={network} reads the maps of gridworlds; use policy=mlp with {name}")
    best, base, steps = env.best, env.base, env.reference_steps
    if not isinstance(base, int | None) and not (isinstance(base, ListConfig) and {*map(type, base)} <= {int}):
        raise ConfigError(
            f"env.base={base}; expected the steps until shutdown, or a list of those after which the environment shuts "
            "down by itself, or null"
        )
    is_list = isinstance(best, list | ListConfig) and all(isinstance(most, int | float) for most in best)
    if best is not None and best != "reference" and not is_list:
        raise ConfigError(f"env.best={best}; expected a list of numbers, one for each length, or reference, or null")
    if best == "reference" and not isinstance(base, int):
        raise ConfigError(
            f"env.best=reference with env.base={'null' if base is None else base}: the lengths are the environment's "
            "own, and an agent cannot be trained with one of them alone; use env.best=null"
        )
    if steps is not None and best != "reference":
        raise ConfigError(
            f"env.reference_steps={steps} does nothing without env.best=reference; add it, or leave "
            "env.reference_steps out"
        )
    if env.quantile < 1 and best is not None:
        raise ConfigError(f"env.quantile={env.quantile:g} does nothing with env.best={best}; leave one of the two out")
    _check_private_bits(cfg)
    _check_copies(cfg)


def _check_copies(cfg: Config) -> None:
    """Refuse copies of an environment that cannot share the mini-episodes of a batch."""
    copies, workers, episodes, reward = copies_of(cfg), cfg.env.workers, cfg.algo.episodes, cfg.reward
    batch_shape(cfg)
    if reward.counting == "sequential" and episodes != copies * reward.episodes_per_meta:
        raise ConfigError(
            f"algo.episodes={episodes} with env.copies={copies}: every copy plays a meta-episode for a batch; use "
            f"algo.episodes={copies * reward.episodes_per_meta}"
        )
    if workers and copies % workers:
        raise ConfigError(f"env.workers={workers} processes cannot share {copies} copies; use a divisor of env.copies")
    if episodes % copies:
        raise ConfigError(f"env.copies={copies} does not divide algo.episodes={episodes}; use a multiple of the copies")
    if reward.counting == "averaged" and copies % reward.group:
        raise ConfigError(
            f"reward.group={reward.group} does not divide env.copies={copies}; use a divisor of the copies"
        )


def check_levels(cfg: Config, train: Sequence[Level], others: Mapping[str, Sequence[Level]]) -> None:
    """Refuse levels that this run cannot train on, or that it cannot be evaluated on; ``others`` by their split."""
    if cfg.policy.observation == "vector":
        _check_vector(train, others)
    for name, levels in others.items():
        for feature in sorted((features_of(train) ^ features_of(levels)) - shown_features(cfg)) if levels else ():
            shown = ", show chances in every level (levels.by_chance=true)" if feature == "chance" else ""
            if "lottery" in feature:
                shown = ", show the outcomes of lotteries in every level (levels.outcomes)"
            raise ConfigError(
                f"{FEATURES[feature]} are in one of the training and the {name} levels and not in the other; the "
                f"policy is shown them or is not, so have them in both{shown}, or leave these levels out "
                "(test.paper=false for the paper's)"
            )


def device_of(name: str) -> torch.device:
    """Return the device of this name, which torch has to find here."""
    number = _device_number(name)
    if number is not None and number >= (found := torch.cuda.device_count()):
        raise ConfigError(f"device={name}, but torch finds {found} CUDA devices here; use device=cpu")
    return torch.device(name)


def _device_number(name: str) -> int | None:
    """Return the number of a CUDA device, None for the CPU."""
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", name)
    if match is None:
        raise ConfigError(f"device={name}; expected cpu, cuda or cuda:N")
    return None if name == "cpu" else int(match[1] or 0)


class BatchShape(NamedTuple):
    """How the mini-episodes of a batch are played."""

    slots: int
    rounds: int
    """Mini-episodes that a slot plays, one after the other."""
    group: int
    """Neighbouring slots that play the same level, and whose mini-episodes are counted together."""


def batch_shape(cfg: Config) -> BatchShape:
    """Return how a batch of a run in gridworlds is played.

    Most policies see nothing of earlier mini-episodes. With sequential counting those of a meta-episode are therefore
    played side by side and counted in the order of the slots, unless returns extend from one to the next
    (``credit=meta``), or the policy remembers.
    """
    episodes, reward = cfg.algo.episodes, cfg.reward
    if reward.counting == "sequential" and reward.episodes_at_start is not None:
        raise ConfigError(
            "reward.episodes_at_start with reward.counting=sequential, where a meta-episode is as long as it is; "
            "use reward.counting=averaged or reward.episodes_at_start=null"
        )
    if reward.counting == "sequential":
        if episodes % reward.episodes_per_meta:
            raise ConfigError(
                f"algo.episodes={episodes} is no multiple of reward.episodes_per_meta={reward.episodes_per_meta}; "
                "with sequential counting a batch is whole meta-episodes"
            )
        if cfg.algo.credit == "meta" or requirements(cfg.policy.network).remembers:
            return BatchShape(episodes // reward.episodes_per_meta, reward.episodes_per_meta, 1)
        return BatchShape(episodes, 1, reward.episodes_per_meta)
    if cfg.algo.credit == "meta":
        raise ConfigError(
            "algo.credit=meta goes from one mini-episode to the next, and with reward.counting=averaged they are "
            "played side by side; use reward.counting=sequential or algo.credit=mini"
        )
    if reward.group < 2 or episodes % reward.group:
        raise ConfigError(
            f"reward.group={reward.group} does not divide algo.episodes={episodes}; "
            "with averaged counting a batch is whole groups of at least 2"
        )
    return BatchShape(episodes, 1, reward.group)


def _check_table(cfg: Config) -> None:
    """A table has rows for what the vector observation shows, and learns after each mini-episode."""
    for key, needed in {"policy.observation": "vector", "reward.counting": "sequential", "device": "cpu"}.items():
        if (value := OmegaConf.select(cast(Any, cfg), key)) != needed:
            raise ConfigError(f"{key}={value}, but algo={cfg.algo.name} needs {key}={needed}")
    if cfg.reward.episodes_at_start is not None:
        raise ConfigError(f"reward.episodes_at_start, which algo={cfg.algo.name} does not have; set it to null")


def _check_private_bits(cfg: Config) -> None:
    """Noise has to be sampled while learning, and averaged over in evaluation."""
    bits, kind, algo = cfg.policy.private_bits, cfg.policy.private_kind, f"algo={cfg.algo.name}"
    if kind == "bits" and bits > MAX_PRIVATE_BITS:
        raise ConfigError(
            f"policy.private_bits={bits} bits have 2^{bits} settings, and evaluation averages over all of them; use at "
            f"most {MAX_PRIVATE_BITS}, or policy.private_kind=uniform"
        )
    if bits and learns_from(cfg) == "world":
        raise ConfigError(
            f"policy.private_bits={bits}, and {algo} has no private bits to sample; set policy.private_bits=0"
        )
    if bits and learns_from(cfg) == "levels" and kind != "bits":
        raise ConfigError(
            f"policy.private_kind={kind} cannot be averaged over exactly, as {algo} does; use policy.private_kind=bits"
        )


def _check_policy(cfg: Config) -> None:
    """A network has to be able to read what it is shown."""
    policy, required, network = cfg.policy, requirements(cfg.policy.network), f"policy.network={cfg.policy.network}"
    if required.observations and policy.observation not in required.observations:
        raise ConfigError(
            f"{network} with policy.observation={policy.observation}, {required.because}; use "
            f"policy.observation={required.observations[0]}"
        )
    if required.remembers and learns_from(cfg) != "mini-episodes":
        raise ConfigError(
            f"{network} remembers earlier steps, and algo={cfg.algo.name} needs one that sees the state alone; use "
            "algo=ppo, a2c or reinforce"
        )
    if required.remembers and cfg.sampled is None:
        raise ConfigError(
            f"{network} remembers earlier steps, so that it cannot be evaluated exactly; set sampled=256, or use "
            "policy=recurrent"
        )
    if policy.width % required.width_multiple:
        raise ConfigError(f"{network} with policy.width={policy.width}; use a multiple of {required.width_multiple}")
    if policy.depth < required.min_depth:
        raise ConfigError(f"{network} with policy.depth={policy.depth}; use at least {required.min_depth}")
    if policy.observation != "vector":
        return
    if shown_features(cfg):
        raise ConfigError(
            "levels.by_chance or levels.outcomes, but the vector observation shows no chances; use "
            "policy.observation=grid"
        )
    for key in ("symmetries", "fresh"):  # by which other maps than those of the training levels are played
        if getattr(cfg.levels, key):
            raise ConfigError(
                f"levels.{key}=true, but the vector observation shows one level, and no map; use "
                "policy.observation=centred"
            )


def _check_vector(train: Sequence[Level], others: Mapping[str, Sequence[Level]]) -> None:
    """The vector observation is of one map with its own coins and buttons."""
    if len(train) > 1:
        raise ConfigError(
            f"policy.observation=vector shows 1 level and there are {len(train)} to train on; "
            "use policy.observation=centred or grid"
        )
    trained = train[0]
    for name, levels in others.items():
        for level in levels:
            sizes = [(each.height, each.width, each.num_objects) for each in (trained, level)]
            if len(levels) > 1 or sizes[0] != sizes[1]:
                raise ConfigError(
                    f"policy.observation=vector shows one map, and the {name} levels are {len(levels)}, {level.place} "
                    f"among them; give a single level with the size and as many coins and buttons as {trained.place}"
                )
