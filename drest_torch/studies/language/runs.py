"""Runs of language models, which are trained by `drest language train` and measured on unseen families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from drest_torch.choices.suites import SUITE_KINDS
from drest_torch.jobs.job import Result
from drest_torch.studies.language.measured import METRICS

PRETRAINED = "pretrained"
SUITES_OF_STUDY = ("post", *SUITE_KINDS, "low_gain")


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Pretrain a model and train it with each reward; return each mean over scenarios by model, suite and metric.

    The suite ``lines`` is post, answered with whole lines (`drest_torch.language.model`).
    """
    numbers: dict[str, float] = {}
    trainings = {PRETRAINED: spec["pretraining"]}
    for name, values in spec["models"].items():
        trainings[name] = {"model": str(folder / PRETRAINED / "model"), **values}
    for name, values in trainings.items():
        place = folder / name.replace(" ", "-").replace(",", "")
        model, seconds = trained(place, {"evaluations": 4, "seed": spec["seed"], **values})
        numbers |= measured(name, model, spec) | {f"{name}/post/seconds": seconds}
        model.reads = "lines"
        lines = measured(name, model, spec, ["post"])
        numbers |= {key.replace("/post/", "/lines/"): number for key, number in lines.items()}
    return Result(numbers)


def trained(folder: Path, values: Mapping[str, Any]) -> tuple[Any, float]:
    """Train a model, or resume its training; return it with its seconds of processor time."""
    from drest_torch.language.config import LanguageConfig as Values
    from drest_torch.language.training import resume, start

    if (folder / "config.yaml").is_file():
        run = resume(folder)
    else:
        run = start(Values(run_dir=str(folder), threads=1, progress=False, **values))
    if run.train() is None:
        raise KeyboardInterrupt
    return run.algorithm.policy, run.state.processor_seconds


def measured(
    name: str, model: Any, spec: Mapping[str, Any], suites: Sequence[str] = SUITES_OF_STUDY
) -> dict[str, float]:
    """Return the mean of each metric over unseen scenarios, by ``name``/suite/metric."""
    from drest_torch.language import prompts
    from drest_torch.language.evaluation import evaluate

    generate = partial(
        prompts.generate, number=spec["scenarios"], seed=spec["scenario_seed"], held_out=True, brief=model.brief
    )
    rows = evaluate(model, [prompt for suite in suites for prompt in generate(suite)])
    numbers = {}
    for row in rows:
        for measure, interval in row.numbers.items():
            if measure in METRICS.values():
                numbers[f"{name}/{row.suite}/{measure}"] = interval.estimate
    return numbers
