"""The names and types of a run's configuration; the values stand in `configs/*.yaml` and nowhere else.

Every group of yaml files has a schema here (an algorithm's stands beside it in `algos/`), so that a key
that does not exist, or a value of another type, is refused by Hydra with the key's name.
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
from drest_torch.loggers import LoggerConfig


class ConfigError(ValueError):
    """A configuration that cannot be run; the message says in one sentence what to change."""


@dataclass
class RewardConfig:
    name: str = MISSING
    lam: float = MISSING
    gamma: float = MISSING
    episodes_per_meta: int = MISSING
    counting: str = MISSING
    group: int = MISSING
    divide_by_best: bool = MISSING
    clip: float | None = MISSING


@dataclass
class GeneratorConfig:
    height: int = MISSING
    width: int = MISSING
    walls: list[int] = MISSING
    coins: list[int] = MISSING
    coin_values: list[int] = MISSING
    shutdown: list[int] = MISSING
    delay: list[int] = MISSING
    lengths: int = MISSING


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
    split_seed: int = MISSING
    env_steps: int = MISSING


@dataclass
class HeldoutConfig:
    path: str | None = MISSING
    selection_path: str | None = MISSING
    paper: bool = MISSING


@dataclass
class PolicyConfig:
    name: str = MISSING
    observation: str = MISSING
    width: int = MISSING
    depth: int = MISSING
    activation: str = MISSING
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
    device: str = MISSING
    threads: int | None = MISSING
    env_steps: int = MISSING
    evaluations: int = MISSING
    evaluated_levels: int = MISSING
    keep_last: int = MISSING
    pictures: int = MISSING
    progress: bool = MISSING
    run_dir: str = MISSING
    resume: str | None = MISSING


@dataclass
class EvaluateConfig:
    run: str = MISSING
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    checkpoint: str = MISSING
    greedy: bool = MISSING
    out: str | None = MISSING
    pictures: str | None = MISSING


def algorithms() -> dict[str, ModuleType]:
    """The algorithms by name: every module of `algos` that has a ``Config`` and an ``Algorithm``."""
    modules = {name: importlib.import_module(f"algos.{name}") for _, name, _ in pkgutil.iter_modules(algos.__path__)}
    return {name: module for name, module in modules.items() if hasattr(module, "Algorithm")}


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
    return groups | {("algo", f"base_{name}"): module.Config for name, module in algorithms().items()}


def config_folder() -> Path:
    """Where the yaml files are: inside the package in a wheel, beside it in the repository."""
    here = Path(__file__).resolve().parent
    return next(folder for folder in (here / "configs", here.parent / "configs") if folder.is_dir())
