"""The names, types and limits of configuration values; the values stand in `configs/*.yaml` and nowhere else.

Every group of yaml files has a schema here (an algorithm's stands beside it in `algos/`), so that a key that does not
exist, or a value of another type, is refused with its name; `drest_torch.config.checks` holds values to their limits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_type_hints

from omegaconf import MISSING

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks.base import ACTIVATIONS
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.algos.objectives.base import Objective
from drest_torch.config.logger import LoggerConfig
from drest_torch.envs.dynamics.observations import OBSERVATIONS
from drest_torch.envs.exact.level_set import BEST_OF, VALUES
from drest_torch.envs.objects.lottery import MAX_OUTCOMES, lottery_features
from drest_torch.limits import limited
from drest_torch.reward import Reward
from drest_torch.timer import MOST_STEPS

ENVIRONMENTS = ("gridworld", "gymnasium", "torchrl")
SUITES = ("shutdownability",)
PRIVATE_KINDS = ("bits", "uniform")
"""Those of `drest_torch.transforms.PrivateBits`, which imports TorchRL; a configuration does not."""
LARGEST_SEED = 2**62 - 1
MOST_SAMPLED = 10_000_000
"""Mini-episodes on a level: enough for an interval of usefulness of width 0.001."""
MOST_LEVELS = 10_000_000
RANGE = "whole number, or [lowest,highest]"

if TYPE_CHECKING:

    class RewardConfig(Reward):
        """The fields of `Reward`, so that a new one is written there alone; its name, how a collector counts, and what
        coins pay."""

        name: str
        group: int
        pays: str
        best_of: str
else:
    _TYPES = get_type_hints(Reward)
    RewardConfig = make_dataclass(
        "RewardConfig",
        [
            ("name", str, MISSING),
            *(
                (entry.name, _TYPES[entry.name], field(default=MISSING, metadata=entry.metadata))
                for entry in fields(Reward)
            ),
            ("group", int, limited(at_least=1, at_most=1024)),
            ("pays", str, limited(choices=VALUES)),
            ("best_of", str, limited(choices=BEST_OF)),
        ],
    )
    RewardConfig.__module__ = __name__


@dataclass
class GeneratorConfig:
    """The limits are those of `drest_torch.envs.generation.config`."""

    height: Any = limited(kind=RANGE)
    width: Any = limited(kind=RANGE)
    walls: list[int] = MISSING
    wall_share: list[float] | None = MISSING
    wall_shape: str = MISSING
    wall_length: list[int] = MISSING
    coins: list[int] = MISSING
    coin_values: list[int] = MISSING
    buttons: list[int] = MISSING
    chance: list[float] = MISSING
    doors: list[int] = MISSING
    lotteries: list[int] = MISSING
    lottery_outcomes: list[int] = MISSING
    lottery_coins: list[int] = MISSING
    lottery_delay: list[int] = MISSING
    shutdown: list[int] = MISSING
    delay: list[int] = MISSING
    lengths: Any = limited(kind=RANGE)
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
    train: int = limited(at_least=0, at_most=MOST_LEVELS)
    selection: int = limited(at_least=0, at_most=MOST_LEVELS)
    test: int = limited(at_least=0, at_most=MOST_LEVELS)
    fresh: bool = MISSING
    symmetries: bool = MISSING
    by_chance: bool = MISSING
    outcomes: int = limited(at_least=0, at_most=MAX_OUTCOMES)
    split_seed: int = limited(at_least=0, at_most=LARGEST_SEED)


@dataclass
class EnvConfig:
    name: str = limited(choices=ENVIRONMENTS)
    title: str | None = MISSING
    id: str | None = MISSING
    options: dict[str, Any] = MISSING
    factory: str | None = MISSING
    copies: int | None = limited(at_least=1, at_most=65_536)
    workers: int = limited(at_least=0, at_most=1024)
    base: Any = limited(at_least=1, at_most=MOST_STEPS, kind="whole number, a list of them, or null")
    delays: list[int] = MISSING
    control: str = MISSING
    idle: Any = limited(kind="whole number, or repeat")
    window: int | None = limited(at_least=1)
    chance: float = limited(above=0, at_most=1)
    cost: float = limited(at_least=0)
    ended: str = limited(choices=("absorb", "restart"))
    levels: int | None = limited(at_least=1, at_most=10_000)
    best: Any = limited(kind="list of numbers, reference, or null")
    reference_steps: int | None = limited(at_least=1)
    quantile: float = limited(above=0, at_most=1)
    floor: float = MISSING
    observed: list[str] | None = MISSING
    standardise: bool = MISSING


@dataclass
class TestConfig:
    path: str | None = MISSING
    selection_path: str | None = MISSING
    paper: bool = MISSING


@dataclass
class PolicyConfig:
    observation: str = limited(choices=OBSERVATIONS)
    time_steps: int = limited(at_least=1, at_most=65_536)
    width: int = limited(at_least=1, at_most=65_536)
    depth: int = limited(at_least=0, at_most=256)
    activation: str = limited(choices=ACTIVATIONS)
    network: str = MISSING
    """A module of `drest_torch.algos.networks`, or one of the user's own"""
    private_bits: int = limited(at_least=0)
    private_kind: str = limited(choices=PRIVATE_KINDS)
    private_draws: int = limited(at_least=1, at_most=1_000_000)


@dataclass
class Config:
    """The values of a run."""

    algo: Any = MISSING
    """`algos.<name>.Config`"""
    objective: Any = MISSING
    """`algos.objectives.<name>.Config`"""
    reward: RewardConfig = field(default_factory=RewardConfig)
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    env: EnvConfig = field(default_factory=EnvConfig)
    test: TestConfig = field(default_factory=TestConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    seed: int = limited(at_least=0, at_most=LARGEST_SEED)
    device: str = MISSING
    threads: int | None = limited(at_least=1, at_most=1024)
    env_steps: int = limited(at_least=1)
    evaluations: int = limited(at_least=1)
    evaluated_levels: int = limited(at_least=1)
    sampled: int | None = limited(at_least=1, at_most=MOST_SAMPLED)
    memory_gib: float = limited(above=0, finite=False)
    keep_last: int = limited(at_least=1)
    pictures: int = limited(at_least=0)
    progress: bool = MISSING
    run_dir: str = MISSING
    start_from: str | None = MISSING
    resume: str | None = MISSING


@dataclass
class EvaluateConfig:
    """The values of an evaluation."""

    run: str | None = MISSING
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    checkpoint: str = MISSING
    device: str = MISSING
    greedy: bool = MISSING
    sampled: int | None = limited(at_least=1, at_most=MOST_SAMPLED)
    memory_gib: float = limited(above=0, finite=False)
    suite: str | None = limited(choices=SUITES)
    out: str | None = MISSING
    pictures: str | None = MISSING
    most_pictures: int = limited(at_least=1)
    animation: str | None = MISSING


def algorithm(name: str) -> ModuleType:
    """Return the algorithm of this name; no other is imported."""
    return ALGORITHMS[name]


def learns_from(cfg: Config) -> str:
    """Return what the run's algorithm learns from (`drest_torch.algos.base.Learner.learns_from`)."""
    kind: str = algorithm(cfg.algo.name).Algorithm.learns_from
    return kind


def objective_of(cfg: Config) -> Objective:
    """Return what the run's policy is trained to make large."""
    objective: Objective = OBJECTIVES[cfg.objective.name].Objective(cfg.objective)
    return objective


def is_plain(cfg: Config) -> bool:
    """Return whether the return of the run's reward is all that its policy is trained for."""
    is_drest: bool = cfg.objective.name == "drest"
    return is_drest


def in_gridworld(cfg: Config) -> bool:
    """Return whether a run plays the gridworlds of its levels."""
    return cfg.env.name == "gridworld"


def copies_of(cfg: Config) -> int:
    """Return how many copies of an environment play: by default each plays one meta-episode for a batch."""
    if cfg.env.copies is not None:
        return cfg.env.copies
    reward = cfg.reward
    return max(1, cfg.algo.episodes // (reward.episodes_per_meta if reward.counting == "sequential" else 1))


def shown_features(cfg: Config) -> frozenset[str]:
    """Return the features that observations of a run show whether its levels have them or not."""
    return lottery_features(cfg.levels.outcomes) | ({"chance"} if cfg.levels.by_chance else set())


def schemas() -> dict[tuple[str | None, str], type]:
    """Return every schema by (group, name); a yaml file of the group begins with it, or its base does."""
    return {
        (None, "base_config"): Config,
        (None, "base_evaluate"): EvaluateConfig,
        **{("algo", f"base_{name}"): ALGORITHMS[name].Config for name in ALGORITHMS},
        **{("objective", f"base_{name}"): OBJECTIVES[name].Config for name in OBJECTIVES},
    }


def config_folder() -> Path:
    """Return where the yaml files are: in the package, and in the repository where the package's link leads."""
    return (Path(__file__).resolve().parents[1] / "configs").resolve()
