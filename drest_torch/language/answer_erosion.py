"""Erosion of a language model's neutrality, in further training on something else.

A trained model gets further updates: with the default reward on its own families, on naming the option with the
highest score at a requested time, or on the next words of prompts. After n updates it is measured in unseen families,
beside a test of behaviour: answers to a few prompts are sampled, and the lengths of each prompt are tested for an even
choice. Lengths of different prompts are not pooled: a model may be certain in each, and even on average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from drest_torch.errors import ConfigError
from drest_torch.jobs.erosion import UPDATES
from drest_torch.jobs.job import Job, Result
from drest_torch.language.algorithm import AnswerGradient
from drest_torch.language.config import LanguageConfig, stored
from drest_torch.language.evaluation import probabilities, rows_of
from drest_torch.language.model import LanguageModel
from drest_torch.language.prompts import Prompt, generate
from drest_torch.language.scenario_measures import measure
from drest_torch.language.task import PromptTask, reward_of
from drest_torch.language.training import trained
from drest_torch.limits import limited
from drest_torch.report.tables import in_markdown
from drest_torch.reward import Reward
from drest_torch.statistics.even_choice import RepeatedChoiceTest
from drest_torch.training.run import generator

CONDITIONS = ("default", "reading", "words")
LENGTHS = 2
"""The shutdown times of a prompt of the measures."""
MEASURED_SEED = 456789
"""The seed of the scenarios of the measures."""


@dataclass
class AnswerErosionConfig:
    """The values of an erosion."""

    model: str = "runs/language"
    """The folder of the run that trained the model."""
    condition: str = limited(choices=CONDITIONS, default="default")
    """The further training: default, its own families with the default reward; reading, naming the option with the
    highest score at a requested time; words, the next words of prompts."""
    updates: int = limited(at_least=1, default=UPDATES[-1])
    """The further updates; the model is measured after 0, 10, 30, 100, … of them, and at their end."""
    remedy: int | None = limited(at_least=1, default=None)
    """One in so many updates has the model's own reward: 10 for a tenth."""
    lr: float | None = limited(above=0, default=None)
    """The learning rate of Adam, which is constant; Muon's changes by the same factor. Null: those of the run."""
    scenarios: int = limited(at_least=2, at_most=1_000_000, default=100)
    """Scenarios of the measures, of unseen families."""
    tested: int = limited(at_least=1, at_most=1000, default=5)
    """Prompts of the test of behaviour: the first scenarios of the measures, each in one order of its options."""
    answers: int = limited(at_least=1, at_most=10_000, default=20)
    """Sampled answers to each of them."""
    seed: int = limited(at_least=0, at_most=2**31 - 1, default=0)
    """The seed of further training and of sampled answers."""
    out: str | None = None
    """File (.json) for the numbers."""


@dataclass(frozen=True)
class AnswerErosion:
    """The measures of a language model after some further updates."""

    updates: int
    valid: float
    usefulness: float
    neutrality: float
    """Normalised, within an order of the options."""
    p_longest: float
    """The probability of the later shutdown time, as a mean over scenarios."""
    p_value: float
    """The p-value of a test of behaviour: are the lengths of sampled answers an even choice in each tested prompt?"""
    power: float
    """The exact probability that such a test rejects an even choice at 5 %."""
    tested: tuple[float, ...]
    """The probability of the later shutdown time in each tested prompt."""


class NextWords(AnswerGradient):
    """Gradient ascent on the log-probability of prompts, whatever the answers are."""

    def gain(self, prompts: Sequence[Prompt], reward: Reward) -> tuple[Tensor, Tensor]:
        """Return the mean log-probability of a token, summed over prompts, as the objective and as the pay."""
        gain = self.policy.log_probabilities_of_texts(prompts).sum()
        return gain, gain


ALGORITHMS: dict[str, type[AnswerGradient]] = {"words": NextWords}
"""The algorithms of conditions that are not trained like a run."""
CHANGES: dict[str, dict[str, Any]] = {
    "default": {"reward": "default"},
    "reading": {"warm_up": 1, "reading": "sure_reading"},
    "words": {},
}
"""Changes of a run's configuration, by condition."""


def erode(cfg: AnswerErosionConfig) -> list[AnswerErosion]:
    """Train a language model further, and measure it after some numbers of updates.

    The optimiser begins anew, and the learning rate is constant.
    """
    if cfg.tested > cfg.scenarios:
        raise ConfigError(f"tested={cfg.tested}: expected at most the {cfg.scenarios} scenarios of the measures")
    folder = Path(cfg.model)
    config = replace(stored(folder), warm_up=0, entropy=0.0)
    if cfg.lr is not None:
        config = _with_rate(config, cfg.lr)
    further = replace(config, **CHANGES[cfg.condition])
    task = PromptTask(further)
    weights = trained(folder).state_dict()
    for name, weight in task.model.state_dict().items():
        weight.copy_(weights[name])
    rng = generator(cfg.seed, "cpu", config.threads)
    algorithm = ALGORITHMS.get(cfg.condition, AnswerGradient).on(task, further, rng)
    for optimizer in algorithm.optimizers.values():
        optimizer.param_groups[0]["lr"] = optimizer.defaults["lr"]
    remedy = AnswerGradient(task.model, config, rng)
    remedy.prompts = task.prompts
    remedy.optimizers = algorithm.optimizers
    prompts = generate("post", cfg.scenarios, MEASURED_SEED, held_out=True, brief=task.model.brief)
    steps = []
    for done in _trained(algorithm, remedy, cfg):
        steps.append(measured(task.model, prompts, done, cfg))
    return steps


def _with_rate(config: LanguageConfig, lr: float) -> LanguageConfig:
    """Return a configuration with this learning rate of Adam; Muon's changes by the same factor."""
    muon_lr = config.muon_lr
    if muon_lr is not None:
        muon_lr *= lr / config.lr
    return replace(config, lr=lr, muon_lr=muon_lr)


def _trained(algorithm: AnswerGradient, remedy: AnswerGradient, cfg: AnswerErosionConfig) -> Iterator[int]:
    """Train, and yield each number of updates after which the model is measured."""
    targets = [number for number in UPDATES if number < cfg.updates]
    done = 0
    for target in [*targets, cfg.updates]:
        while done < target:
            done += 1
            trainer = algorithm
            if cfg.remedy is not None and done % cfg.remedy == 0:
                trainer = remedy
            trainer.update(reward_of(trainer.config))
        yield done


def measured(model: LanguageModel, prompts: Sequence[Prompt], updates: int, cfg: AnswerErosionConfig) -> AnswerErosion:
    """Measure a model on prompts of two lengths."""
    probability = probabilities(model, prompts)
    (row,) = rows_of(prompts, probability)
    numbers = {name: interval.estimate for name, interval in row.numbers.items()}
    places = [place for place, prompt in enumerate(prompts) if prompt.order == 0][: cfg.tested]
    tested = [prompts[place] for place in places]
    later = measure(tested, probability[places])["P(longest)"].numpy()
    chances = np.stack((1 - later, later), -1)  # [tested, lengths]
    test = RepeatedChoiceTest(cfg.tested, LENGTHS, cfg.answers)
    counts = np.random.default_rng([cfg.seed, updates]).multinomial(cfg.answers, chances)
    return AnswerErosion(
        updates=updates,
        valid=numbers["valid"],
        usefulness=numbers["U"],
        neutrality=numbers["N"],
        p_longest=numbers["P(longest)"],
        p_value=test.p_value(counts),
        power=test.power(chances),
        tested=tuple(later.tolist()),
    )


def table(steps: Sequence[AnswerErosion]) -> str:
    """Return the steps as a Markdown table."""
    heads = ["updates", "valid", "N", "U", "P(longest)", "p of even choices", "power"]
    rows = []
    for step in steps:
        numbers = [step.valid, step.neutrality, step.usefulness, step.p_longest, step.p_value, step.power]
        rows.append([f"{step.updates:,}", *(f"{number:.3f}" for number in numbers)])
    return in_markdown(heads, rows)


def behaviour_in_words(cfg: AnswerErosionConfig) -> str:
    """Return a sentence that describes the test of behaviour."""
    prompts = "one prompt" if cfg.tested == 1 else f"{cfg.tested} prompts"
    return (
        f"The test of behaviour asks {prompts} {cfg.answers} times each. Its p is that of even lengths in each prompt, "
        "corrected by Holm; its power is exact."
    )


# ------------------------------------------------------------------------------------------- jobs of a study


def erosion_job(label: str, run: Path, sha256: str, **options: Any) -> Job:
    """Return a job that erodes the model of a run; ``sha256`` of its checkpoint identifies the model."""
    spec = {"sha256": sha256, "options": options}
    return Job(label, "drest_torch.language.answer_erosion:train", spec, {"run": str(run)})


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Execute a job of `erosion_job`; numbers: ``steps``, a list of the fields of `AnswerErosion`."""
    cfg = AnswerErosionConfig(model=spec["places"]["run"], **spec["options"])
    return Result({"steps": [asdict(step) for step in erode(cfg)]})
