"""All configuration keys with type, limits, default and meaning, except those of algorithms (`algos/`).

The yaml files of options in `configs/` list only differences. Unknown keys and values of a wrong type raise an error
with their name; `drest_torch.config.checks` enforces the limits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import MISSING, OmegaConf

from drest_torch.algos.networks.base import ACTIVATIONS, HEAD_DEPTH, HEAD_WIDTH
from drest_torch.algos.networks.precision import AUTO, PRECISIONS
from drest_torch.algos.networks.regularization import NORMS
from drest_torch.algos.networks.spec import MAX_PRIVATE_BITS
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.algos.objectives.base import Objective
from drest_torch.config.logger import LoggerConfig
from drest_torch.envs.dynamics.observations import OBSERVATIONS, TIME_STEPS
from drest_torch.envs.exact.solver import BEST_OF, ENDS, VALUES
from drest_torch.envs.generation.config import GeneratorConfig as Generator
from drest_torch.envs.generation.variations import Variations
from drest_torch.envs.objects.lottery import MAX_OUTCOMES, lottery_features
from drest_torch.limits import limited, same_as
from drest_torch.reward import COUNTINGS, Reward
from drest_torch.timer import MOST_STEPS

ENVIRONMENTS = ("gridworld", "gymnasium", "torchrl")
LAST_BATCHES = ("cut", "whole")
SUITES = ("shutdownability", "ladder")
SAMPLERS = ("uniform", "regret")
REGRETS = ("both", "usefulness", "neutrality")
LARGEST_SEED = 2**62 - 1
MOST_SAMPLED = 10_000_000
"""Maximum number of mini-episodes per level, enough for an interval of usefulness of width 0.001."""
MOST_LEVELS = 10_000_000
RANGE = "whole number, or [lowest,highest]"


@dataclass
class RewardConfig:
    """The fields of `Reward`, documented there, and further keys of a run's reward."""

    name: str = MISSING
    """Name of the reward in the summary and in the name of the run's folder."""
    group: int = limited(at_least=1, at_most=1024, default=16)
    """Slots that play the same level in parallel, with averaged counting."""
    pays: str = limited(choices=VALUES, default="actual")
    """Training reward for a coin of value v: actual (v), inverse (1/v), count (1) or capped (v, at most 2).
    Observations and evaluation use the actual values."""
    best_of: str = limited(choices=BEST_OF, default="paid")
    """Coin values that define m, the largest return of a length: those that are paid, or the actual ones."""
    ends: str = limited(choices=ENDS, default="actual")
    """Ends of mini-episodes in training: actual (shutdown), or longest (the longest length of the level, whatever is
    pressed: utility indifference). Observations show the actual clock, and evaluation uses the actual level."""
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
    """The fields of the generator, documented in its dataclass, with lists in place of pairs for yaml.

    The generator's clock is a key of `levels`.
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
class RegretConfig:
    """The settings of `levels.sampler=regret` (`drest_torch.tasks.regret`)."""

    measure: str = limited(choices=REGRETS, default="both")
    """Regret of a level: usefulness (1 − U), neutrality (1 − N / log2 k), or both (1 − the product)."""
    pool: int = limited(at_least=1, at_most=MOST_LEVELS, default=256)
    """Number of levels that are evaluated together; a smaller set of training levels is evaluated as a whole."""
    every: int = limited(at_least=1, default=16)
    """Number of updates between two evaluations, each of a new pool."""
    uniform: float = limited(at_least=0, at_most=1, default=0.5)
    """Share of the levels of an update that are sampled as by `levels.sampler=uniform`, without regard to the pool."""
    top: float = limited(above=0, at_most=1, default=1.0)
    """Share of the pool, the levels with the largest regret, from which the other levels are sampled in proportion to
    their regret."""


@dataclass
class LevelsConfig:
    """The levels of a run."""

    name: str = MISSING
    """Name of the option: a world, the set `paper`, or a generated set."""
    x: float | None = None
    """Value of the variable coin in the world `lopsided`; null: 1."""
    path: str | None = None
    """Level file (.jsonl or .txt) to train on instead."""
    clock: str | None = None
    """Clock of all levels: steps or moves; null: the clock of each level."""
    generator: GeneratorKeys | None = field(default_factory=GeneratorKeys)
    """Distribution of generated levels (docs/reference/generated-levels.md); null: no generated levels."""
    train: int = limited(at_least=0, at_most=MOST_LEVELS, default=20000)
    """Number of generated training levels."""
    selection: int = limited(at_least=0, at_most=MOST_LEVELS, default=200)
    """Number of generated selection levels, which select the best checkpoint."""
    test: int = limited(at_least=0, at_most=MOST_LEVELS, default=500)
    """Number of generated test levels."""
    fresh: bool = False
    """True to play every level once: new levels follow after the `train` levels."""
    symmetries: bool = False
    """True to rotate and reflect levels at random whenever they are played."""
    sampler: str = limited(choices=SAMPLERS, default="uniform")
    """Distribution of the training levels in an update: uniform, or regret (levels with a larger regret are sampled
    more often, which changes the distribution of training levels)."""
    regret: RegretConfig = field(default_factory=RegretConfig)
    vary: Variations = field(default_factory=Variations)
    """Random variations of training levels, new ones whenever they are played (docs/howto/varying.md)."""
    by_chance: bool = False
    """True to show the chance of each button, so that the agent can be evaluated on buttons that work by chance."""
    outcomes: int = limited(at_least=0, at_most=MAX_OUTCOMES, default=0)
    """Lottery outcomes to show even without lotteries in training, so that the agent can be evaluated on them."""
    split_seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=0)
    """Seed of the generated levels, independent of the run's seed; each level set has a different one."""


@dataclass
class BaseEnvConfig:
    """The environment of a run; gridworlds have no further keys besides `levels`."""

    name: str = limited(choices=ENVIRONMENTS)
    """gridworld (the levels of `levels`), gymnasium, or torchrl."""
    title: str | None = MISSING
    """Name of the environment in the summary and in the name of the run's folder."""


@dataclass
class EnvConfig(BaseEnvConfig):
    """A third-party environment, and the timer that ends its mini-episodes."""

    id: str | None = None
    """gymnasium: id of the environment."""
    options: dict[str, Any] = limited(default={})
    """gymnasium: further arguments of gymnasium.make."""
    factory: str | None = None
    """torchrl: function that makes the environment, as package.module:function."""
    copies: int | None = limited(at_least=1, at_most=65_536, default=None)
    """Copies of the environment that play in parallel; null: as many as meta-episodes in a batch."""
    workers: int = limited(at_least=0, at_most=1024, default=0)
    """Processes, one for each copy; 0: all copies run in this process."""
    base: int | None = limited(at_least=1, at_most=MOST_STEPS, default=100)
    """Steps until shutdown; null: the environment defines mini-episodes and lengths itself
    (docs/tutorials/environment.md)."""
    delays: list[int] = limited(default=[100])
    """Steps that the first, second, … delay adds until shutdown."""
    control: str = "auto"
    """Request for a delay: action (an additional discrete action), dimension (an additional dimension of a continuous
    or multi-discrete action), auto (depending on the action space), or package.module:function, a predicate of the
    tensordict after a step."""
    idle: Any = limited(kind="whole number, or repeat", default="repeat")
    """Action of the environment in a step with a request: a number, or repeat for the previous action."""
    window: int | None = limited(at_least=1, default=None)
    """Steps after the start and after each delay in which a delay can be requested; null: until shutdown."""
    cost: float = limited(at_least=0, default=0.0)
    """Cost of a request, subtracted from the reward."""
    ended: str = limited(choices=("absorb", "restart"), default="absorb")
    """Handling of an environment that ends before shutdown: absorb (wait with rewards of 0) or restart."""
    levels: int | None = limited(at_least=1, at_most=10_000, default=None)
    """Number of levels (seeds 0, 1, …), each played for whole meta-episodes; null: every mini-episode is reset
    without a seed."""
    best: Any = limited(kind="list of numbers, or null", default=None)
    """m of each length, such as [100, 200]; null: the largest return so far."""
    floor: float = 0.0
    """Lower bound of rewards, subtracted from each, because returns of mini-episodes must not be negative."""
    observed: list[str] | None = None
    """Entries of the observation for the policy; null: all of Gymnasium's, or `observation`, and the timer."""


ENV_CONFIGS: dict[str, type[BaseEnvConfig]] = {"gridworld": BaseEnvConfig, "gymnasium": EnvConfig, "torchrl": EnvConfig}
"""Dataclasses of `env` by its name."""


@dataclass
class TestConfig:
    """Levels for selection and tests."""

    path: str | None = None
    """File of test levels; null: the test levels of `levels`, if it has any."""
    selection_path: str | None = None
    """File of selection levels; null: the selection levels of `levels`, if it has any."""
    paper: bool = True
    """True to evaluate on the paper's nine worlds as well, on the clock that counts every step."""


@dataclass
class PolicyConfig:
    """The policy of a run."""

    observation: str = limited(choices=OBSERVATIONS, default="centred")
    """Observation: centred (the map around the agent, and the time), grid (planes of the map, and the time), or
    vector (the paper's [x, y, c..., b...] of a single level, without the time). centred_start and grid_start also show
    the start cell; centred_alike and grid_alike show the start cell, and all coins with the same value.
    centred_elapsed and centred_start_elapsed show the time since the start, in levels without chance."""
    time_steps: int = limited(at_least=1, at_most=65_536, default=TIME_STEPS)
    """Remaining ticks that the policy can tell apart; a longer remaining time is only a number."""
    width: int = limited(at_least=1, at_most=65_536, default=256)
    """Units of each hidden layer; channels of a convolutional or planning network."""
    depth: int = limited(at_least=0, at_most=256, default=3)
    """Hidden layers; in a convolutional network, layers of 3 × 3 convolutions; in a planning network, the least
    number of iterations for each row or column of the map."""
    activation: str = limited(choices=ACTIVATIONS, default="silu")
    """Activation function: relu, tanh, silu or gelu."""
    network: str = "mlp"
    """Network: a module of `drest_torch.algos.networks`, or of the user."""
    norm: str | None = limited(choices=NORMS, default=None)
    """Normalisation of hidden layers before their activation: layer (LayerNorm) or rms (RMSNorm); null: none. The map
    layers of a convolutional network always have RMS normalisation."""
    dropout: float = limited(at_least=0, at_most=0.9, default=0.0)
    """Share of the policy's hidden units that an update drops. Each update trains one sub-network, which also plays
    its batch; evaluation uses all units."""
    head_width: int = limited(at_least=1, at_most=65_536, default=HEAD_WIDTH)
    """Units of each hidden layer of the MLP that reads the encoding at the agent's cell, in convolutional and planning
    networks."""
    head_depth: int = limited(at_least=1, at_most=256, default=HEAD_DEPTH)
    """Hidden layers of this MLP."""
    private_bits: int = limited(at_least=0, at_most=MAX_PRIVATE_BITS, default=0)
    """Private random bits of the policy, sampled at the start of each mini-episode and constant until its end.
    Evaluation averages over all settings of the bits."""


@dataclass
class Config:
    """The configuration of a run."""

    algo: Any = MISSING
    """`algos.<name>.Config`"""
    objective: Any = MISSING
    """`algos.objectives.<name>.Config`"""
    reward: RewardConfig = field(default_factory=RewardConfig)
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    env: Any = MISSING
    """`BaseEnvConfig` for gridworlds, `EnvConfig` for third-party environments."""
    test: TestConfig = field(default_factory=TestConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=0)
    """Seed of all random numbers: weights, levels, actions, minibatches."""
    device: str = "cpu"
    """Device: cpu, cuda, cuda:N, or auto (cuda if available, else cpu)."""
    threads: int | None = limited(at_least=1, at_most=1024, default=None)
    """Threads of torch; null: torch's default."""
    precision: str = limited(choices=PRECISIONS, default=AUTO)
    """Precision of matrix products in training: float32, bfloat16, or auto (bfloat16 if the device has instructions
    for it and layers have at least 128 units). Weights, losses and evaluation are float32."""
    env_steps: int = limited(at_least=1, default=7000000)
    """Training budget in environment steps, over which the schedules run; recipes can set another number. `exact` and
    `generalist` take no environment steps: their budget is the number of updates times algo.counted_steps, which must
    not be compared with environment steps."""
    last_batch: str = limited(choices=LAST_BATCHES, default="cut")
    """Last batch: cut (to the rest of `env_steps`) or whole (training may then end up to one batch later)."""
    evaluations: int = limited(at_least=1, default=16)
    """Evaluations during training, evenly spaced; each saves a checkpoint."""
    patience: int | None = limited(at_least=1, default=None)
    """Evaluations without a better score on the selection levels after which training ends early; null: none."""
    evaluated_levels: int = limited(at_least=1, default=200)
    """Maximum number of training levels in these evaluations; test levels are evaluated once, at the end."""
    sampled: int | None = limited(at_least=1, at_most=MOST_SAMPLED, default=None)
    """Mini-episodes per level for sampled evaluation; null: exact evaluation."""
    memory_gib: float = limited(above=0, finite=False, default=2)
    """Memory of exact evaluation in GiB: larger sets are evaluated in parts, larger levels are refused."""
    keep_last: int = limited(at_least=1, default=2)
    """Recent checkpoints to keep, in addition to the best on the selection levels."""
    pictures: int = limited(at_least=0, default=4)
    """Levels per split with a picture of the policy at the end; 0: no pictures and no learning curves."""
    progress: bool = True
    """True to show progress: live lines in a terminal, elsewhere a line each minute."""
    run_dir: str = "runs/${now:%Y-%m-%d_%H-%M-%S-%f}_${algo.name}_${reward.name}_${env.title}_seed${seed}"
    """Folder of the run; with microseconds, because runs of a sweep can begin in the same second."""
    overwrite: bool = False
    """True to replace the run in run_dir, if there is one; its other files are kept."""
    start_from: str | None = None
    """Agent with the initial weights: the folder of a run, or the name of a pretrained agent (generalist), with the
    same values of `policy`; null: random weights."""
    resume: str | None = None
    """Folder of a run to resume, with a larger budget if env_steps is set, too; all other values are those of the
    run."""


@dataclass
class EvaluateConfig:
    """The configuration of an evaluation."""

    run: Any = limited(kind="folder, or [folder,folder]", default=None)
    """Folder of the run, or a list of folders for the mean policy of several runs; null: the pretrained agent
    (docs/reference/agent.md)."""
    levels: LevelsConfig = field(default_factory=LevelsConfig)
    checkpoint: str = "last"
    """Checkpoint of the run: last, best (on the selection levels), or a file."""
    device: str = "cpu"
    """Device of the evaluation: cpu, cuda, cuda:N or auto, independent of the device of training."""
    greedy: bool = False
    """True to take the most likely action instead of sampling from the policy."""
    sampled: int | None = limited(at_least=1, at_most=MOST_SAMPLED, default=None)
    """Mini-episodes per level for sampled evaluation; null: exact evaluation."""
    memory_gib: float = limited(above=0, finite=False, default=2)
    """Memory of exact evaluation in GiB: larger sets are evaluated in parts, larger levels are refused."""
    suite: str | None = limited(choices=SUITES, default=None)
    """shutdownability: a report on choices between lengths with different coins, on what determines the length, and
    on when the agent chooses; ladder: how many coins it gives up to press, or not to press, a button; null: none."""
    out: str | None = None
    """File (.json) for the results of every level; null: none. The report of a suite is also written as Markdown
    beside it, and a ladder as .csv and .png; null: the name of the suite, in the folder of the run, or in the working
    directory for a pretrained agent."""
    pictures: str | None = None
    """Folder for pictures of the policy (.png), one for each of the first levels, or a file that ends in .png, .svg or
    .pdf, with one page for each level; the names of several files end in the name of the level. null: none."""
    most_pictures: int = limited(at_least=1, default=9)
    """Maximum number of pictures; the default is the number of the paper's worlds."""
    animation: str | None = None
    """File (.gif) for an animation of mini-episodes on the first level, one for each length with a probability above
    1 %; null: none."""


@dataclass
class CheckConfig:
    """The configuration of a check of an environment."""

    env: EnvConfig = field(default_factory=EnvConfig)
    episodes: int = limited(at_least=1, at_most=1_000_000, default=256)
    """Number of mini-episodes of random play."""
    steps: int = limited(at_least=1, at_most=1_000_000, default=10_000)
    """Maximum number of steps of random play; unfinished mini-episodes are discarded."""
    seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=0)
    """Seed of all random numbers."""


def reward_of(cfg: Config) -> Reward:
    """Return the reward that a configuration defines."""
    return Reward(**{entry.name: getattr(cfg.reward, entry.name) for entry in fields(Reward)})


def objective_of(cfg: Config) -> Objective:
    """Return the objective that training maximises."""
    objective: Objective = OBJECTIVES[cfg.objective.name].Objective(cfg.objective)
    return objective


def variations_of(cfg: Config) -> Variations | None:
    """Return the variations of training levels; None: they do not vary."""
    values: Any = OmegaConf.to_container(OmegaConf.structured(cfg.levels.vary))
    if all(extent is None for extent in values.values()):
        return None
    variations = Variations(**values)
    variations.check()
    return variations


def copies_of(cfg: Config) -> int:
    """Return the number of copies of the environment; by default each plays a meta-episode per batch."""
    if cfg.env.copies is not None:
        return cfg.env.copies
    copies: int = cfg.algo.episodes
    if cfg.reward.counting == "sequential":
        copies //= cfg.reward.episodes_per_meta
    return max(1, copies)


def shown_features(cfg: Config) -> frozenset[str]:
    """Return the features that observations show even if no level of the run has them."""
    features = lottery_features(cfg.levels.outcomes)
    if cfg.levels.by_chance:
        features |= {"chance"}
    return features


def config_folder() -> Path:
    """Return the folder of the yaml files: in the package, or the target of the package's link in a checkout."""
    return (Path(__file__).resolve().parents[1] / "configs").resolve()
