"""The configuration of a language model's training, and a reader of stored configurations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from drest_torch.algos.objectives.base import Objective
from drest_torch.config.checks import check_limits, device_of, objective_with
from drest_torch.config.command_lines import command_line
from drest_torch.config.logger import NO_SINK, SINKS
from drest_torch.config.schema import LARGEST_SEED
from drest_torch.config.stored import read_stored
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.language import prompts as data
from drest_torch.language.form_sets import TRAINING
from drest_torch.language.model import READS, SMALL
from drest_torch.language.objective import INVALID, REWARDS
from drest_torch.limits import limited
from drest_torch.reward import Reward

MOST_SCENARIOS = 1_000_000
FORMS = (TRAINING,)


@dataclass
class LanguageConfig:
    """The values of a training."""

    model: str = SMALL
    """small (made here), smollm2 or gemma3 (of their packages), a folder, a .gguf file or a name on the Hub."""
    tasks: str | None = None
    """A jsonl file of training prompts, instead of ``suites``."""
    suites: str = "post"
    """The training suites, separated by commas, generated from ``seed``."""
    forms: str | None = limited(choices=FORMS, default=None)
    """training: prompts have two to five options, and forms of the training split; null: four options, in one form."""
    scenarios: int = limited(at_least=1, at_most=MOST_SCENARIOS, default=20_000)
    """The number of scenarios of all suites together, each in two orders of its options."""
    reward: str = limited(choices=REWARDS, default="drest")
    """drest: the share of the best score of the length, discounted; default: the score ÷ 10; supports: DReST between
    sets of lengths, and Neutrality+ between options with the same lengths."""
    objective: dict[str, Any] | None = limited(kind="values of an objective, or null", default=None)
    """An objective of gridworlds with its values, such as objective.name=weighted objective.weight=0.5; null: the
    expected pay of the reward."""
    method: str = limited(choices=("exact", "rloo"), default="exact")
    """exact: the gradient of the expected pay; rloo: a gradient estimate from E sampled answers."""
    credit: str = limited(choices=("mini", "meta", "rloo"), default="mini")
    """The credit assignment of exact gradients, see `objective.expected_pay`."""
    reads: str = limited(choices=READS, default="letters")
    """The definition of an option's probability: that of its letter, or of its line."""
    lam: float = limited(above=0, at_most=1, default=0.9)
    """λ, the discount of DReST."""
    episodes_per_meta: int = limited(at_least=2, at_most=4096, default=32)
    """E, the answers to a prompt."""
    invalid: float = limited(at_least=-1e6, at_most=1e6, default=INVALID)
    """The pay of an answer that names no option."""
    entropy: float = limited(at_least=0, default=0.0)
    """Weight of the entropy of the choice among all options."""
    updates: int = limited(at_least=1, default=1000)
    """Updates of the training with the reward, after the warm-up."""
    warm_up: int = limited(at_least=0, default=1000)
    """Updates of the warm-up, in which the model learns to name the option with the highest score at a given time."""
    reading: str = limited(choices=data.READING, default="reading")
    """The suite of the warm-up: reading, half of it lotteries, or sure_reading."""
    prompts: int = limited(at_least=1, default=64)
    """Prompts in an update."""
    at_once: int = limited(at_least=1, default=64)
    """Prompts in a pass through the model."""
    lr: float = limited(above=0, default=0.001)
    """The learning rate of Adam, which rises in the first updates, then falls to 0."""
    muon_lr: float | None = limited(above=0, default=None)
    """The learning rate of Muon for all matrices but the embeddings: a small model learns about twice as fast. If null,
    Adam trains them."""
    lora: int | None = limited(at_least=1, at_most=4096, default=None)
    """The rank of LoRA's matrices, to train only these; null: train all weights."""
    bfloat16: bool = False
    """Passes through the model in bfloat16: several times as fast on processors with AMX. Weights stay float32."""
    device: str = "cpu"
    """cpu, or cuda, with which runs of the same seed may differ in rounding."""
    evaluations: int = limited(at_least=1, default=8)
    """The number of evaluations during training, each with a checkpoint."""
    selection: int = limited(at_least=2, at_most=MOST_SCENARIOS, default=200)
    """Held-out scenarios, from the families of training, on which the model is evaluated."""
    seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=0)
    """The seed of the initial weights, the prompts and the sampled answers."""
    threads: int | None = limited(at_least=1, at_most=1024, default=None)
    """Threads of torch; null: as torch chooses."""
    logger: str = NO_SINK
    """none, wandb, csv, tensorboard, or a module of your own with a ``Logger``."""
    run_dir: str = "runs/language"
    """The folder of the run."""
    overwrite: bool = False
    """True to replace the run in ``run_dir``, if there is one; its other files are kept."""
    progress: bool = True
    """True to print progress."""


def reward_of(cfg: LanguageConfig) -> Reward:
    """Return the reward, with answers counted in random order; the default reward is the score itself."""
    if cfg.reward == "default":
        return Reward(1.0, 1.0, cfg.episodes_per_meta, "averaged", divide_by_best=False)
    return Reward(cfg.lam, 1.0, cfg.episodes_per_meta, "averaged")


@dataclass
class Stored:
    """The contents of a run's ``config.yaml``."""

    language: LanguageConfig = field(default_factory=LanguageConfig)


def check(cfg: LanguageConfig) -> None:
    """Refuse invalid values, before a model is loaded, which takes a while."""
    check_limits(cfg)
    device_of(cfg.device)
    if cfg.objective is not None:
        _check_objective(cfg)
    if cfg.logger != NO_SINK:
        SINKS.check(cfg.logger)
    if cfg.method == "rloo" and cfg.reward == "supports":
        raise ConfigError(
            "reward=supports with method=rloo, which pays each answer by its lengths, not by its set of lengths; use "
            "reward=drest, or method=exact"
        )


def _check_objective(cfg: LanguageConfig) -> None:
    """Refuse an objective that does not exist or does not fit the other values."""
    objective_of(cfg)
    for key, values in {"method": ["exact"], "credit": ["mini", "meta"], "reward": ["drest", "default"]}.items():
        value = getattr(cfg, key)
        if value not in values:
            raise ConfigError(
                f"{key}={value} with objective.name; expected {' or '.join(values)}, or leave the objective out"
            )


def objective_of(cfg: LanguageConfig) -> Objective | None:
    """Return the objective that a configuration names and sets; None: the expected pay of the reward."""
    if cfg.objective is None:
        return None
    values = dict(cfg.objective)
    if "name" not in values:
        raise ConfigError(f"objective.{min(values, default='name')} without objective.name; name an objective")
    return objective_with(values)


def stored(folder: Path) -> LanguageConfig:
    """Return the configuration of a run from an untrusted folder."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{folder}: not a run of a language model; expected a folder with a config.yaml")

    def schema(loaded: Any) -> Stored:
        if "language" not in loaded:
            command = command_line("evaluate", f"run={folder}")
            raise CheckpointError(f"{folder}: another kind of run, and no language model; evaluate it: {command}")
        loaded.language.overwrite = False  # concerns the start of a run, and is not stored
        return Stored()

    values: Any = OmegaConf.to_object(read_stored(path, schema))
    return replace(values.language, run_dir=str(folder))


def repeated(folder: Path) -> LanguageConfig:
    """Return the configuration of a run in an untrusted folder, for a new run in another folder."""
    return replace(stored(folder), run_dir=LanguageConfig.run_dir)
