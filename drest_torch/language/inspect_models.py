"""Solvers for the tasks of Inspect, which work without a network for models without a tokenizer."""

from __future__ import annotations

from typing import Any

from inspect_ai.model import get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

CHARACTERS_PER_TOKEN = 4
"""The characters of a token of a model without a tokenizer."""


@solver
def ask() -> Solver:
    """Return a solver that asks the model for an answer."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        count_tokens_locally(get_model())
        return await generate(state)

    return solve


def count_tokens_locally(model: Any) -> None:
    """Let Inspect's mock model count tokens by characters; it would download a tokenizer for its statistics of use."""
    if type(model.api).__name__ == "MockLLM":
        model.api.count_text_tokens = _tokens_of


async def _tokens_of(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)
