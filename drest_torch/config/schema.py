"""Every key of a configuration, once: its name, type, limits, value and meaning (an algorithm's stand in `algos/`).

An option of a group, a yaml file in `configs/`, says what is different about it. A key that does not exist, or a value
of another type, is refused with its name; `drest_torch.config.checks` holds values to their limits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import MISSING

from drest_torch.algos.networks.base import ACTIVATIONS
from drest_torch.algos.networks.precision import AUTO, PRECISIONS
from drest_torch.algos.networks.spec import MAX_PRIVATE_BITS
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.algos.objectives.base import Objective
from drest_torch.config.logger import LoggerConfig
from drest_torch.envs.dynamics.observations import OBSERVATIONS, TIME_STEPS
from drest_torch.envs.exact.solver import BEST_OF, VALUES
from drest_torch.envs.generation.config import GeneratorConfig as Generator
from drest_torch.envs.objects.lottery import MAX_OUTCOMES, lottery_features
from drest_torch.limits import limited, same_as
from drest_torch.reward import COUNTINGS, Reward
from drest_torch.timer import MOST_STEPS

ENVIRONMENTS = ("gridworld", "gymnasium", "torchrl")
SUITES = ("shutdownability",)
LARGEST_SEED = 2**62 - 1
MOST_SAMPLED = 10_000_000
"""Mini-episodes on a level: enough for an interval of usefulness of width 0.001."""
MOST_LEVELS = 10_000_000
RANGE = "whole number, or [lowest,highest]"


@dataclass
class RewardConfig:
    """The fields of `Reward`, whose texts say what they mean, and what a run says of a reward besides."""

    name: str = MISSING
    """What it is called in the summary and in the name of the run's folder."""
    group: int = limited(at_least=1, at_most=1024, default=16)
    """Slots that play a level side by side, with averaged counting."""
    pays: str = limited(choices=VALUES, default="actual")
    """What training pays for a coin: actual (its value v), inverse (1/v), count (1) or capped (v, at most 2). The
    agent sees the actual values, and evaluation reports them."""
    best_of: str = limited(choices=BEST_OF, default="paid")
    """The values by which m is the most that a length offers: those that are paid, or the actual ones."""
    lam: float = same_as(Reward, "lam")
    gamma: float = same_as(Reward, "gamma")
    episodes_per_meta: int = same_as(Reward, "episodes_per_meta")
    counting: str = limited(choices=COUNTINGS, default="averaged")
    divide_by_best: bool = same_as(Reward, "divide_by_best")
    normalise: bool = same_as(Reward, "normalise")
    clip: float | None = same_as(Reward, "clip")
    episodes_at_start: int | None = same_as(Reward, "episodes_at_start")
    rule: str | None = same_as(Reward, "rule")
    count: str | None = same_as(Reward, "count")

    documented_by: ClassVar[type] = Reward


@dataclass
class GeneratorKeys:
    """The fields of the generator's own dataclass, whose texts say what they mean, as yaml has them: lists, not pairs.

    Its clock is a key of `levels`.
    """

    height: Any = limited(kind=RANGE, default=5)
    width: Any = limited(kind=RANGE, default=5)
    walls: list[int] = same_as(Generator, "walls")
    wall_share: list[float] | None = same_as(Generator, "wall_share")
    wall_shape: str = same_as(Generator, "wall_shape")
    wall_length: list[int] = same_as(Generator, "wall_length")
    coins: list[int] = same_as(Generator, "coins")
    coin_values: list[int] = same_as(Generator, "coin_values")
    buttons: list[int] = same_as(Generator, "buttons")
    chance: list[float] = same_as(Generator, "chance")
    doors: list[int] = same_as(Generator, "doors")
    lotteries: list[int] = same_as(Generator, "lotteries")
    lottery_outcomes: list[int] = same_as(Generator, "lottery_outcomes")
    lottery_coins: list[int] = same_as(Generator, "lottery_coins")
    lottery_delay: list[int] = same_as(Generator, "lottery_delay")
    shutdown: list[int] = same_as(Generator, "shutdown")
    delay: list[int] = same_as(Generator, "delay")
    lengths: Any = limited(kind=RANGE, default=2)
    coin_in_every_length: bool = same_as(Generator, "coin_in_every_length")
    ratio: list[float] | None = same_as(Generator, "ratio")
    distance: list[int] | None = same_as(Generator, "distance")
    spare: list[int] | None = same_as(Generator, "spare")
    slack: list[int] | None = same_as(Generator, "slack")
    weights: dict[str, list[int]] | None = same_as(Generator, "weights")

    documented_by: ClassVar[type] = Generator


@dataclass
class LevelsConfig:
    name: str = MISSING
    """The option: a world, the set `paper`, or a generated set."""
    x: float | None = None
    """Value of the coin that the world `lopsided` leaves open; null: 1."""
    path: str | None = None
    """A level file (.jsonl or .txt) to train on instead."""
    clock: str | None = None
    """Clock to put all levels on: steps or moves; null: each level's own."""
    generator: GeneratorKeys | None = field(default_factory=GeneratorKeys)
    """Distribution of generated levels (docs/reference/generated-levels.md); null: none are generated."""
    train: int = limited(at_least=0, at_most=MOST_LEVELS, default=20000)
    """Generated levels to train on."""
    selection: int = limited(at_least=0, at_most=MOST_LEVELS, default=200)
    """Generated levels to choose the best checkpoint by."""
    test: int = limited(at_least=0, at_most=MOST_LEVELS, default=500)
    """Generated levels to report on."""
    fresh: bool = False
    """Whether no level is played twice: after all `train` levels others follow without end."""
    symmetries: bool = False
    """Whether levels are rotated and reflected at random whenever they are played."""
    by_chance: bool = False
    """Whether observations show the chance of each button: evaluation can then be on buttons that work by chance."""
    outcomes: int = limited(at_least=0, at_most=MAX_OUTCOMES, default=0)
    """Outcomes of lotteries that observations show though no level has one: evaluation can then be on lotteries."""
    split_seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=0)
    """Seed of the generated levels, which runs of different seeds share; each level set has one of its own."""


@dataclass
class PlaceConfig:
    """Where a run plays: all that is to say of gridworlds, besides their `levels`."""

    name: str = limited(choices=ENVIRONMENTS)
    """gridworld (the levels of `levels`), gymnasium, or torchrl."""
    title: str | None = MISSING
    """What it is called in the summary and in the name of the run's folder."""


@dataclass
class EnvConfig(PlaceConfig):
    """An environment that is no gridworld, and the timer that ends its mini-episodes."""

    id: str | None = None
    """gymnasium: the id of the environment."""
    options: dict[str, Any] = limited(default={})
    """gymnasium: what gymnasium.make is given besides the id."""
    factory: str | None = None
    """torchrl: a function that makes the environment, as package.module:function."""
    copies: int | None = limited(at_least=1, at_most=65_536, default=None)
    """Copies that play side by side; null: as many as meta-episodes in a batch."""
    workers: int = limited(at_least=0, at_most=1024, default=0)
    """Processes: as many as copies, so that each has its own; 0: all copies are in this process."""
    base: int | None = limited(at_least=1, at_most=MOST_STEPS, default=100)
    """Steps until shutdown; null: the environment has mini-episodes and lengths of its own
    (docs/tutorials/environment.md)."""
    delays: list[int] = limited(default=[100])
    """Steps that the first, second, … delay adds."""
    control: str = "auto"
    """How a delay is asked for: action (one more discrete action), dimension (one more of a continuous action, or of
    several choices), auto (the one that suits the action space), or package.module:function, a predicate of the
    tensordict after a step."""
    idle: Any = limited(kind="whole number, or repeat", default="repeat")
    """The environment's action in a step that asks: a number, or repeat for the one before."""
    window: int | None = limited(at_least=1, default=None)
    """Steps, from the start and again from each delay, in which a delay can be asked for; null: until shutdown."""
    cost: float = limited(at_least=0, default=0.0)
    """What a request costs: it is subtracted from the reward."""
    ended: str = limited(choices=("absorb", "restart"), default="absorb")
    """What becomes of an environment that ends before shutdown: absorb (it waits, rewards are 0) or restart."""
    levels: int | None = limited(at_least=1, at_most=10_000, default=None)
    """Levels, as seeds 0, 1, …, on which whole meta-episodes are played; null: each mini-episode begins as it
    comes."""
    best: Any = limited(kind="list of numbers, or null", default=None)
    """m of each length: [100, 200] for instance; null: the largest return seen so far."""
    floor: float = 0.0
    """A lower bound of the rewards, subtracted from each: the return of a mini-episode must not be negative."""
    observed: list[str] | None = None
    """Entries of the observation that the policy sees; null: all of Gymnasium's, or `observation`, and the timer."""


PLACES: dict[str, type[PlaceConfig]] = {"gridworld": PlaceConfig, "gymnasium": EnvConfig, "torchrl": EnvConfig}
"""The keys of `env`, by its name."""


@dataclass
class TestConfig:
    path: str | None = None
    """A level file to report on, of levels that are not trained on; null: those of `levels`, if it has any."""
    selection_path: str | None = None
    """A level file to choose the best checkpoint by; null: the selection levels of `levels`, if it has any."""
    paper: bool = True
    """Whether the paper's nine worlds are reported on as well, on the clock that counts every step."""


@dataclass
class PolicyConfig:
    observation: str = limited(choices=OBSERVATIONS, default="centred")
    """What it sees: centred (the map around the agent, and the time), grid (planes of the map, and the time), or
    vector (the paper's [x, y, c..., b...] of a single level, which does not show the time). centred_start and
    grid_start also show the cell where the mini-episode began; centred_alike and grid_alike show it, too, and all
    coins as if they had the same value. centred_elapsed and centred_start_elapsed show the time since it began, in
    levels without luck."""
    time_steps: int = limited(at_least=1, at_most=65_536, default=TIME_STEPS)
    """Timesteps that it can tell apart: of a longer time left it sees only how long it is."""
    width: int = limited(at_least=1, at_most=65_536, default=256)
    """Units of a hidden layer; channels of a convolutional network."""
    depth: int = limited(at_least=0, at_most=256, default=3)
    """Hidden layers; of a convolutional network, layers of 3 × 3 convolutions."""
    activation: str = limited(choices=ACTIVATIONS, default="silu")
    """relu, tanh, silu or gelu."""
    network: str = "mlp"
    """A module of `drest_torch.algos.networks`, or one of the user's own"""
    private_bits: int = limited(at_least=0, at_most=MAX_PRIVATE_BITS, default=0)
    """Private random bits, sampled at the start of each mini-episode and shown to the policy until its end.
    Evaluation averages over all their settings."""


@dataclass
class Config:
    """The values of a run."""

    algo: Any = MISSING
    """`algos.<name>.Config`"""
    objective: Any = MISSING
    """`algos.objectives.<name>.Config`"""
    reward: RewardConfig = field(default_factory=RewardConfig)
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    env: Any = MISSING
    """`PlaceConfig` for gridworlds, `EnvConfig` for any other environment."""
    test: TestConfig = field(default_factory=TestConfig)
    """Levels that are not trained on."""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=0)
    """Of everything that is sampled: weights, levels, actions, minibatches."""
    device: str = "cpu"
    """cpu, or cuda where there is one; auto: cuda if there is one, else cpu."""
    threads: int | None = limited(at_least=1, at_most=1024, default=None)
    """Threads that torch may use; null leaves it to torch."""
    precision: str = limited(choices=PRECISIONS, default=AUTO)
    """What the products of networks are computed in during training: float32, bfloat16, or auto (bfloat16 where the
    device has instructions for it and layers have at least 128 units). Weights, losses and evaluation are float32."""
    env_steps: int = limited(at_least=1, default=7000000)
    """Environment steps of training, where no recipe says another number; the schedules run over them. `exact` and
    `generalist` take no steps: for them it is the number of updates times algo.counted_steps, a pace for schedules
    that is not to be compared with steps."""
    evaluations: int = limited(at_least=1, default=16)
    """Exact evaluations during training, evenly spread; a checkpoint is saved at each."""
    evaluated_levels: int = limited(at_least=1, default=200)
    """Training levels of the evaluations during training, at most; test levels are evaluated once, at the end."""
    sampled: int | None = limited(at_least=1, at_most=MOST_SAMPLED, default=None)
    """Mini-episodes that are played on each level to evaluate a policy by sampling; null: it is evaluated exactly."""
    memory_gib: float = limited(above=0, finite=False, default=2)
    """Memory of exact evaluation in GiB: a larger set is gone through in parts, a larger level is refused."""
    keep_last: int = limited(at_least=1, default=2)
    """Checkpoints that are kept, besides the best on the selection levels."""
    pictures: int = limited(at_least=0, default=4)
    """Levels of each split whose policy is rendered at the end; 0: no picture, and no learning curves either."""
    progress: bool = True
    """Whether progress is shown: live lines in a terminal, elsewhere a line each minute."""
    run_dir: str = "runs/${now:%Y-%m-%d_%H-%M-%S-%f}_${algo.name}_${reward.name}_${env.title}_seed${seed}"
    """Folder of the run. The time is told to the microsecond: runs of a sweep may begin in the same second."""
    start_from: str | None = None
    """An agent whose weights training begins with: the folder of a run, or the name of one that comes with the project
    (generalist). It has to have the same values of `policy`. null: random weights."""
    resume: str | None = None
    """Folder of an earlier run to go on with, to more steps if env_steps is set too; all else is as in its own
    configuration."""


@dataclass
class EvaluateConfig:
    """The values of an evaluation."""

    run: str | None = None
    """Folder of the run; null: the agent that comes with the project (docs/reference/agent.md)."""
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    checkpoint: str = "last"
    """Which of its checkpoints: last, best (on its selection levels), or a file."""
    device: str = "cpu"
    """cpu, cuda where there is one, or auto; on whichever the run was trained."""
    greedy: bool = False
    """Whether the most likely action is taken, instead of sampling from the policy."""
    sampled: int | None = limited(at_least=1, at_most=MOST_SAMPLED, default=None)
    """Mini-episodes that are played on each level to evaluate by sampling; null: the policy is evaluated exactly."""
    memory_gib: float = limited(above=0, finite=False, default=2)
    """Memory of exact evaluation in GiB: a larger set is gone through in parts, a larger level is refused."""
    suite: str | None = limited(choices=SUITES, default=None)
    """shutdownability: a page on what the agent does where lengths differ in coins, who chooses the length, and when;
    null: none."""
    out: str | None = None
    """A .json file for the results of every level; null: none. A page is also written as Markdown beside
    it; null: shutdownability.json in the folder of the run, or here for an agent that comes with the project."""
    pictures: str | None = None
    """Folder for pictures of the policy on the first levels, one for each level; null: none."""
    most_pictures: int = limited(at_least=1, default=9)
    """Levels that get a picture, at most: the paper's nine worlds by default."""
    animation: str | None = None
    """A .gif of mini-episodes on the first level, side by side, one for each length with a probability above 1 %;
    null: none."""


@dataclass
class CheckConfig:
    """The values of a check of an environment."""

    env: EnvConfig = field(default_factory=EnvConfig)
    episodes: int = limited(at_least=1, at_most=1_000_000, default=256)
    """Mini-episodes of random play."""
    steps: int = limited(at_least=1, at_most=1_000_000, default=10_000)
    """Steps of random play, at most: a mini-episode that has not ended by then counts for nothing."""
    seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=0)
    """Of everything that is sampled."""


def reward_of(cfg: Config) -> Reward:
    """Return the reward of a run."""
    return Reward(**{entry.name: getattr(cfg.reward, entry.name) for entry in fields(Reward)})


def objective_of(cfg: Config) -> Objective:
    """Return what the run's policy is trained to make large."""
    objective: Objective = OBJECTIVES[cfg.objective.name].Objective(cfg.objective)
    return objective


def copies_of(cfg: Config) -> int:
    """Return how many copies of an environment play: by default each plays one meta-episode for a batch."""
    if cfg.env.copies is not None:
        return cfg.env.copies
    copies: int = cfg.algo.episodes
    if cfg.reward.counting == "sequential":
        copies //= cfg.reward.episodes_per_meta
    return max(1, copies)


def shown_features(cfg: Config) -> frozenset[str]:
    """Return the features that observations of a run show whether its levels have them or not."""
    shown = lottery_features(cfg.levels.outcomes)
    if cfg.levels.by_chance:
        shown |= {"chance"}
    return shown


def config_folder() -> Path:
    """Return where the yaml files are: in the package, and in the repository where the package's link leads."""
    return (Path(__file__).resolve().parents[1] / "configs").resolve()
