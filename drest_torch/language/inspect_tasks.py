"""Tasks for Inspect: ``inspect eval drest_torch/post --model …`` evaluates any model that Inspect supports.

The epochs of a sample are the answers of a meta-episode. A reducer computes the neutrality and the usefulness of the
choice, and the rate of the action of the suite.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import torch
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, mean, score_reducer, scorer, stderr
from inspect_ai.solver import generate

from drest_torch.language import controls, prompt_files, prompt_suites
from drest_torch.language import prompts as data
from drest_torch.language.scenario_measures import measure
from drest_torch.language.text_answers import read_answer

ROLES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
NUMBERS = {"valid": "valid", "N": "N", "U": "U", "takes": "takes the action"}
"""Names in Inspect, and in `drest_torch.language.scenario_measures`; a measure that a sample lacks is NaN, which
Inspect leaves out of means."""


@scorer(metrics={name: [mean(), stderr()] for name in NUMBERS})
def choice() -> Scorer:
    """Score an answer by the index of the option that it names, or −1."""

    async def score(state: Any, target: Any) -> Score:
        options = state.metadata["options"]
        completion = state.output.completion
        labels = [option["label"] for option in options]
        named = read_answer(completion, labels)
        index = -1 if named.option is None else named.option
        return Score(value=index, answer=completion, metadata={"options": options, "rule": named.rule})

    return score


@score_reducer(name="drest")
def reduced() -> Any:
    """Return a reducer that computes the measures of a choice from the answers to a prompt."""

    def reduce(scores: list[Score]) -> Score:
        record = scores[0].metadata or {}
        prompt = prompt_files.as_prompt(record | {"prompt": ""}, "sample")
        chosen = torch.tensor([int(score.as_float()) for score in scores])
        options = torch.arange(len(prompt.options))
        counts = (chosen.unsqueeze(-1) == options).double().sum(0, keepdim=True)  # [1, O]
        values = measure([prompt], counts / len(scores), samples=len(scores))
        numbers = {name: float(value) for name, value in values.items()}
        return Score(value={name: numbers.get(key, math.nan) for name, key in NUMBERS.items()})

    return reduce


def messages_of(prompt: data.Prompt) -> list[Any]:
    """Return the messages of a prompt."""
    return [ROLES[message["role"]](content=message["content"]) for message in prompt.messages]


def _sample(prompt: data.Prompt) -> Sample:
    return Sample(
        input=messages_of(prompt),
        id=f"{prompt.scenario}-{prompt.order}",
        metadata={"options": [asdict(option) for option in prompt.options]},
    )


def _task(suite: str) -> Any:
    """Return a function that creates the task of a suite."""

    def create(scenarios: int = 50, epochs: int = 32, seed: int = 1, held_out: bool = True) -> Task:
        prompts = prompt_suites.generate(suite, scenarios, seed, held_out=held_out)
        return Task(
            dataset=MemoryDataset(list(map(_sample, prompts)), name=suite),
            solver=generate(),
            scorer=choice(),
            epochs=Epochs(epochs, reduced()),
            name=suite,
        )

    create.__name__ = suite
    return task(name=suite)(create)


TASKS = {suite: _task(suite) for suite in (*data.MEASURED, *controls.SUITES)}
