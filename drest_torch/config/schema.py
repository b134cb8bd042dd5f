"""The names and types of a run's configuration; the values stand in `configs/*.yaml` and nowhere else.

Every group of yaml files has a schema here (an algorithm's stands beside it in `algos/`), so that a key
that does not exist, or a value of another type, is refused by Hydra with the key's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import torch
from omegaconf import MISSING, OmegaConf

from algos import ALGORITHMS
from algos.advantages import CREDITS
from algos.networks import NETWORKS
from algos.networks.base import ACTIVATIONS
from algos.tabular import GRADIENTS
from drest_torch.errors import ConfigError
from drest_torch.evaluation.exact import MAX_NOISE_BITS, NOISE_KINDS
from drest_torch.registry import Registry
from drest_torch.reward import COUNTINGS, Reward
from drest_torch.tracking.sinks import SINKS, LoggerConfig
from drest_torch.tracking.wandb_sink import MODES
from envs.dynamics.observations import OBSERVATIONS

if TYPE_CHECKING:

    class RewardConfig(Reward):
        """The fields of `Reward`, so that a new one is written there alone; its name, and how a collector counts."""

        name: str
        group: int
else:
    _TYPES = {"name": str, **{entry.name: get_type_hints(Reward)[entry.name] for entry in fields(Reward)}, "group": int}
    RewardConfig = make_dataclass("RewardConfig", [(name, kind, MISSING) for name, kind in _TYPES.items()])
    RewardConfig.__module__ = __name__


@dataclass
class GeneratorConfig:
    """``Any`` is a whole number, or a list of the lowest and the highest."""

    height: Any = MISSING
    width: Any = MISSING
    walls: list[int] = MISSING
    wall_share: list[float] | None = MISSING
    wall_shape: str = MISSING
    wall_length: list[int] = MISSING
    coins: list[int] = MISSING
    coin_values: list[int] = MISSING
    buttons: list[int] = MISSING
    chance: list[float] = MISSING
    doors: list[int] = MISSING
    shutdown: list[int] = MISSING
    delay: list[int] = MISSING
    lengths: Any = MISSING
    coin_in_every_length: bool = MISSING
    ratio: list[float] | None = MISSING
    distance: list[int] | None = MISSING
    spare: list[int] | None = MISSING
    slack: list[int] | None = MISSING
    weights: dict[str, list[int]] | None = MISSING


@dataclass
class LevelsConfig:
    name: str = MISSING
    x: float | None = MISSING
    path: str | None = MISSING
    clock: str | None = MISSING
    generator: GeneratorConfig | None = MISSING
    train: int = MISSING
    selection: int = MISSING
    heldout: int = MISSING
    fresh: bool = MISSING
    symmetries: bool = MISSING
    split_seed: int = MISSING
    env_steps: int = MISSING
    entropy: float = MISSING


@dataclass
class HeldoutConfig:
    path: str | None = MISSING
    selection_path: str | None = MISSING
    paper: bool = MISSING


@dataclass
class PolicyConfig:
    observation: str = MISSING
    width: int = MISSING
    depth: int = MISSING
    activation: str = MISSING
    network: str = MISSING
    noise: int = MISSING
    noise_kind: str = MISSING
    noise_draws: int = MISSING


@dataclass
class Config:
    algo: Any = MISSING
    reward: RewardConfig = field(default_factory=RewardConfig)
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    heldout: HeldoutConfig = field(default_factory=HeldoutConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    seed: int = MISSING
    agents: int = MISSING
    device: str = MISSING
    lockstep: bool | None = MISSING
    compile: bool = MISSING
    graphs: bool = MISSING
    threads: int | None = MISSING
    env_steps: int = MISSING
    evaluations: int = MISSING
    evaluated_levels: int = MISSING
    sampled: int | None = MISSING
    memory_gib: float = MISSING
    keep_last: int = MISSING
    pictures: int = MISSING
    progress: bool = MISSING
    run_dir: str = MISSING
    resume: str | None = MISSING


@dataclass
class EvaluateConfig:
    run: str | None = MISSING
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    checkpoint: str = MISSING
    device: str = MISSING
    greedy: bool = MISSING
    sampled: int | None = MISSING
    memory_gib: float = MISSING
    out: str | None = MISSING
    pictures: str | None = MISSING


CHOICES: dict[str, Collection[str]] = {
    "algo.credit": CREDITS,
    "algo.counting": COUNTINGS,
    "algo.observation": OBSERVATIONS,
    "algo.gradient": GRADIENTS,
    "reward.counting": COUNTINGS,
    "policy.observation": OBSERVATIONS,
    "policy.activation": ACTIVATIONS,
    "policy.noise_kind": NOISE_KINDS,
    "logger.mode": MODES,
}
"""What a text may be."""

Limits: TypeAlias = Mapping[str, tuple[Callable[[float], bool], str]]
"""What a number may be, in words and as a test, and the keys for which it holds."""

LIMITS: Limits = {
    "at least 0": (
        lambda value: 0 <= value < math.inf,
        "algo.lr algo.lr_end algo.muon_lr algo.muon_lr_end algo.entropy algo.entropy_end algo.critic_coeff "
        "policy.depth policy.noise levels.train levels.selection levels.heldout levels.entropy pictures "
        "algo.random_episodes algo.rarely algo.left_out",
    ),
    "at least 1": (
        lambda value: value >= 1,
        "algo.episodes algo.minibatches algo.epochs algo.levels_at_once algo.counted_as "
        "reward.episodes_per_meta reward.episodes_at_start policy.width policy.noise_draws "
        "algo.decay_episodes agents env_steps evaluations evaluated_levels sampled keep_last threads",
    ),
    "above 0": (lambda value: value > 0, "algo.adam_eps algo.max_grad_norm algo.clip reward.clip memory_gib"),
    "above 0, at most 1": (
        lambda value: 0 < value <= 1,
        "reward.lam reward.gamma algo.epsilon algo.epsilon_end",
    ),
    "from 0 to 1": (lambda value: 0 <= value <= 1, "algo.gae_lambda"),
    "from 0 to 2^62 - 1": (lambda value: 0 <= value < 2**62, "seed levels.split_seed"),
}
"""Null, where a key allows it, is always good."""


def check_values(cfg: Any) -> None:
    """Refuse a value that nothing can be done with; what only some combinations forbid is `data`'s to find."""
    ALGORITHMS.check(cfg.algo.name)
    NETWORKS.check(cfg.policy.network)
    for name in cfg.logger.sinks:
        SINKS.check(name)
    for key, choices in CHOICES.items():
        value = OmegaConf.select(cfg, key)  # None also where this algorithm has no such key
        if value is not None and value not in choices:
            raise ConfigError(f"{key}={value}; expected one of {', '.join(choices)}")
    check_limits(cfg, LIMITS)
    _device_number(cfg.device)  # whether there is such a device is known where the run is done
    noise = cfg.policy.noise
    if cfg.policy.noise_kind == "bits" and noise > MAX_NOISE_BITS:
        raise ConfigError(
            f"policy.noise={noise} bits have 2^{noise} settings, and evaluation averages over all of them; "
            f"use at most {MAX_NOISE_BITS}, or policy.noise_kind=uniform"
        )


def check_limits(cfg: Any, limits: Limits, prefix: str = "") -> None:
    """Refuse a number that is not what it may be; keys that ``cfg`` does not have are passed over."""
    for words, (good, keys) in limits.items():
        for key in keys.split():
            value = OmegaConf.select(cfg, key)
            if value is not None and not good(value):
                raise ConfigError(f"{prefix}{key}={value}; expected a number {words}")


def device_of(name: str) -> torch.device:
    number = _device_number(name)
    if number is not None and number >= torch.cuda.device_count():
        raise ConfigError(
            f"device={name}, but torch finds {torch.cuda.device_count()} CUDA devices here; use device=cpu"
        )
    return torch.device(name)


def _device_number(name: str) -> int | None:
    """Of a CUDA device, None for the CPU."""
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", name)
    if match is None:
        raise ConfigError(f"device={name}; expected cpu, cuda or cuda:N")
    return None if name == "cpu" else int(match[1] or 0)


def algorithms() -> Registry:
    """Return the algorithms by name."""
    return ALGORITHMS


def learns_from(cfg: Any) -> str:
    """What the run's algorithm learns from (`algos.base.Learner.learns_from`)."""
    return algorithms()[cfg.algo.name].Algorithm.learns_from


def schemas() -> dict[tuple[str | None, str], type]:
    """Every schema by (group, name); a yaml file of the group begins with it."""
    groups: dict[tuple[str | None, str], type] = {
        (None, "base_config"): Config,
        (None, "base_evaluate"): EvaluateConfig,
        ("reward", "base_reward"): RewardConfig,
        ("levels", "base_levels"): LevelsConfig,
        ("policy", "base_policy"): PolicyConfig,
        ("logger", "base_logger"): LoggerConfig,
    }
    return groups | {("algo", f"base_{name}"): ALGORITHMS[name].Config for name in ALGORITHMS}


def config_folder() -> Path:
    """Where the yaml files are: inside the package in a wheel, beside it in the repository."""
    package = Path(__file__).resolve().parents[1]
    return next(folder for folder in (package / "configs", package.parent / "configs") if folder.is_dir())
