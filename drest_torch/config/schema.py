"""The names, types and limits of configuration values; the values stand in `configs/*.yaml` and nowhere else.

Every group of yaml files has a schema here (an algorithm's stands beside it in `algos/`), so that a key that does not
exist, or a value of another type, is refused with its name; `drest_torch.config.checks` holds values to their limits.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from omegaconf import MISSING

import algos
from algos.networks.mlp import ACTIVATIONS
from drest_torch.errors import ConfigError
from drest_torch.limits import limited
from drest_torch.reward import COUNTINGS
from envs.dynamics.observations import OBSERVATIONS

NETWORKS = ("mlp", "symmetric", "convolutional")
NOISE_KINDS = ("bits", "uniform")
LOGGER_MODES = ("offline", "online", "disabled")
LARGEST_SEED = 2**62 - 1


@dataclass
class RewardConfig:
    name: str = MISSING
    lam: float = limited(above=0, at_most=1)
    gamma: float = limited(above=0, at_most=1)
    episodes_per_meta: int = limited(at_least=1)
    episodes_at_start: int | None = limited(at_least=1)
    counting: str = limited(choices=COUNTINGS)
    group: int = MISSING
    divide_by_best: bool = MISSING
    clip: float | None = limited(above=0, finite=False)


@dataclass
class GeneratorConfig:
    """``Any`` is a whole number, or a list of the lowest and the highest.

    The limits are those of `envs.generation.config`.
    """

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
    train: int = limited(at_least=0)
    selection: int = limited(at_least=0)
    heldout: int = limited(at_least=0)
    fresh: bool = MISSING
    symmetries: bool = MISSING
    split_seed: int = limited(at_least=0, at_most=LARGEST_SEED)


@dataclass
class HeldoutConfig:
    path: str | None = MISSING
    selection_path: str | None = MISSING
    paper: bool = MISSING


@dataclass
class PolicyConfig:
    observation: str = limited(choices=OBSERVATIONS)
    width: int = limited(at_least=1)
    depth: int = limited(at_least=0)
    activation: str = limited(choices=ACTIVATIONS)
    network: str = limited(choices=NETWORKS)
    noise: int = limited(at_least=0)
    noise_kind: str = limited(choices=NOISE_KINDS)
    noise_draws: int = limited(at_least=1)


@dataclass
class LoggerConfig:
    project: str = "drest_torch"
    mode: str = limited(choices=LOGGER_MODES, default="offline")
    entity: str | None = None
    group: str | None = None
    name: str | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Config:
    """The values of a run."""

    algo: Any = MISSING
    """`algos.<name>.Config`"""
    reward: RewardConfig = field(default_factory=RewardConfig)
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    heldout: HeldoutConfig = field(default_factory=HeldoutConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    seed: int = limited(at_least=0, at_most=LARGEST_SEED)
    agents: int = limited(at_least=1)
    device: str = MISSING
    lockstep: bool | None = MISSING
    compile: bool = MISSING
    graphs: bool = MISSING
    threads: int | None = limited(at_least=1)
    env_steps: int = limited(at_least=1)
    evaluations: int = limited(at_least=1)
    evaluated_levels: int = limited(at_least=1)
    sampled: int | None = limited(at_least=1)
    memory_gib: float = limited(above=0, finite=False)
    keep_last: int = limited(at_least=1)
    pictures: int = limited(at_least=0)
    progress: bool = MISSING
    run_dir: str = MISSING
    resume: str | None = MISSING


@dataclass
class EvaluateConfig:
    """The values of an evaluation."""

    run: str | None = MISSING
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    checkpoint: str = MISSING
    device: str = MISSING
    greedy: bool = MISSING
    sampled: int | None = limited(at_least=1)
    memory_gib: float = limited(above=0, finite=False)
    out: str | None = MISSING
    pictures: str | None = MISSING


def algorithms() -> dict[str, ModuleType]:
    """Return the algorithms by name: every module of `algos` that has a ``Config`` and an ``Algorithm``."""
    modules = {name: importlib.import_module(f"algos.{name}") for _, name, _ in pkgutil.iter_modules(algos.__path__)}
    return {name: module for name, module in modules.items() if hasattr(module, "Algorithm")}


def algorithm(name: str) -> ModuleType:
    """Return the algorithm of this name; no other is imported."""
    if name in [module for _, module, _ in pkgutil.iter_modules(algos.__path__)]:
        module = importlib.import_module(f"algos.{name}")
        if hasattr(module, "Algorithm"):
            return module
    raise ConfigError(f"algo.name={name}; expected one of {', '.join(algorithms())}")


def learns_from(cfg: Config) -> str:
    """Return what the run's algorithm learns from (`algos.base.Learner.learns_from`)."""
    kind: str = algorithm(cfg.algo.name).Algorithm.learns_from
    return kind


def in_lockstep(cfg: Config) -> bool:
    """Return whether all slots are played in every tick."""
    return cfg.device != "cpu" or cfg.agents > 1 if cfg.lockstep is None else cfg.lockstep


def schemas() -> dict[tuple[str | None, str], type]:
    """Return every schema by (group, name); a yaml file of the group begins with it, or its base does."""
    return {
        (None, "base_config"): Config,
        (None, "base_evaluate"): EvaluateConfig,
        **{("algo", f"base_{name}"): module.Config for name, module in algorithms().items()},
    }


def config_folder() -> Path:
    """Return where the yaml files are: inside the package in a wheel, beside it in the repository."""
    package = Path(__file__).resolve().parents[1]
    return next(folder for folder in (package / "configs", package.parent / "configs") if folder.is_dir())
