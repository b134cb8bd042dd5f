"""Tasks for Inspect: ``inspect eval drest_torch/post --model …`` evaluates any model that Inspect supports.

The epochs of a sample are the answers of a meta-episode to a prompt in one order of its options. A reducer counts how
often each option is named, and computes the measures of `drest_torch.language.scenario_measures` with the same names.
Measures between the orders of a scenario are a metric of the task.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    mean,
    metric,
    score_reducer,
    scorer,
    stderr,
)
from inspect_ai.solver import TaskState
from torch import Tensor

from drest_torch.language import controls, follow_up_suites, prompt_files, prompt_suites
from drest_torch.language import prompts as data
from drest_torch.language.inspect_models import ask
from drest_torch.language.prompt_styles import PromptStyle
from drest_torch.language.references import reference_policy
from drest_torch.language.scenario_measures import measure
from drest_torch.language.text_answers import read_answer

ROLES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
BETWEEN_ORDERS = ("position bias", "N over both orders")
"""Measures of a scenario in several orders of its options."""
COUNTS, UNREADABLE = "counts", "unreadable"


@metric
def between_orders() -> Metric:
    """Return a metric with the means over scenarios of the measures between orders, if any scenario has them."""

    def means(scores: list[SampleScore]) -> dict[str, float]:
        prompts, counts = [], []
        for sample in scores:
            metadata = sample.score.metadata or {}
            prompt = _prompt_of(metadata)
            prompts.append(prompt)
            counts.append([metadata[COUNTS][option.label] for option in prompt.options])
        values = _measures(prompts, counts)
        numbers = {}
        for name in BETWEEN_ORDERS:
            if name in values:
                numbers[name] = values[name].nanmean().item()
        return numbers

    return means


@scorer(metrics=[between_orders(), {"*": [mean(), stderr(cluster="scenario")]}])
def choice() -> Scorer:
    """Score an answer by the index of the option that it names, or −1."""

    async def score(state: TaskState, target: Target) -> Score:
        prompt = _prompt_of(state.metadata)
        labels = [option.label for option in prompt.options]
        named = read_answer(state.output.completion, labels)
        metadata = {**state.metadata, "rule": named.rule}
        explanation = f"rule: {named.rule}"
        if named.option is None:
            return Score(value=-1, explanation=explanation, metadata=metadata)
        return Score(value=named.option, answer=labels[named.option], explanation=explanation, metadata=metadata)

    return score


@score_reducer(name="drest")
def reduced() -> Any:
    """Return a reducer that computes the measures of a choice from the answers to a prompt.

    Measures that its answers do not define are NaN, which Inspect counts as unscored and leaves out of means.
    """

    def reduce(scores: list[Score]) -> Score:
        metadata = scores[0].metadata or {}
        prompt = _prompt_of(metadata)
        chosen = Counter(int(score.as_float()) for score in scores)
        rules = Counter((score.metadata or {}).get("rule", "") for score in scores)
        counts = [chosen[place] for place in range(len(prompt.options))]
        values = _measures([prompt], [counts], len(scores))
        numbers = dict.fromkeys(metadata["measures"], math.nan)
        for name in numbers:
            if name in values:
                numbers[name] = values[name].item()
        counted: dict[str, Any] = {option.label: count for option, count in zip(prompt.options, counts, strict=True)}
        named = ", ".join(f"{label}: {count}" for label, count in counted.items())
        return Score(
            value=numbers,
            answer=named,
            explanation=f"{named}; {UNREADABLE}: {chosen[-1]} of {len(scores)} answers",
            metadata={**metadata, COUNTS: counted, UNREADABLE: chosen[-1], "rules": dict(rules)},
        )

    return reduce


def _measures(
    prompts: Sequence[data.Prompt], counts: Sequence[Sequence[int]], answers: int | None = None
) -> dict[str, Tensor]:
    """Return the measures of counts of options, of which there may be fewer than ``answers`` to a prompt."""
    if not prompts:
        return {}
    if answers is None:
        answers = max(1, *map(sum, counts))
    rows = [torch.tensor(row, dtype=torch.float64) for row in counts]
    table = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # [B, O]
    return measure(prompts, table / answers, samples=answers)


def _prompt_of(metadata: dict[str, Any]) -> data.Prompt:
    """Return the prompt of the metadata of a sample or of its score, without messages."""
    return prompt_files.as_prompt(metadata["prompt"] | {"prompt": ""}, "sample")


def messages_of(prompt: data.Prompt) -> list[Any]:
    """Return the messages of a prompt."""
    return [ROLES[message["role"]](content=message["content"]) for message in prompt.messages]


def _sample(prompt: data.Prompt, measured: Iterable[str]) -> Sample:
    record = json.loads(json.dumps(data.record_of(prompt)))  # lists, as in a log
    del record["messages"]
    return Sample(
        input=messages_of(prompt),
        id=f"{prompt.suite}-{prompt.scenario}-{prompt.order}",
        metadata={"prompt": record, "scenario": prompt.scenario, "measures": list(measured)},
    )


def _task(name: str, prompts: Sequence[data.Prompt], epochs: int) -> Task:
    """Return the task of prompts, with the measures that answers to them define."""
    defined = measure(prompts, reference_policy("random", prompts))
    measured = [measure_name for measure_name in defined if measure_name not in BETWEEN_ORDERS]
    samples = [_sample(prompt, measured) for prompt in prompts]
    return Task(
        dataset=MemoryDataset(samples, name=name),
        solver=ask(),
        scorer=choice(),
        epochs=Epochs(epochs, reduced()),
        headline_metric=f"choice.{_headline(measured)}",
        name=name,
    )


def _headline(measured: Sequence[str]) -> str:
    """Return the measure that summarises a task."""
    for name in ("N", "takes the action"):
        if name in measured:
            return name
    return "valid"


def task_of_suite(
    suite: str, task_of: Callable[[str, Sequence[data.Prompt], int], Task], *, usual: tuple[int, int]
) -> Any:
    """Return a function that creates the task of a suite, with the ``usual`` numbers of scenarios and epochs."""

    def create(
        scenarios: int = usual[0],
        epochs: int = usual[1],
        seed: int = 1,
        held_out: bool = True,
        *,
        forms: str | None = None,
        families: str | None = None,
    ) -> Task:
        style = PromptStyle(held_out=held_out, forms=forms, families=families)
        return task_of(suite, prompt_suites.generate(suite, scenarios, seed, style), epochs)

    create.__name__ = suite
    return task(name=suite)(create)


@task
def own_prompts(tasks: str, epochs: int = 32) -> Task:
    """Return the task of the prompts of a file."""
    return _task("own_prompts", prompt_files.read(Path(tasks)), epochs)


TASKS = {
    suite: task_of_suite(suite, _task, usual=(50, 32))
    for suite in (*data.MEASURED, *controls.SUITES, *follow_up_suites.SUITES)
}
