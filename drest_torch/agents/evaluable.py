"""The interface of a gridworld agent for suites of levels, which `drest_torch.agent.Agent` has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.results import Results
from drest_torch.reward import Reward


class EvaluableAgent(Protocol):
    """An agent whose policy can be evaluated on any levels that it observes."""

    name: str
    policy: Any
    reward: Reward

    @property
    def features(self) -> frozenset[str]:
        """The optional features of levels that the policy observes."""

    def evaluator(self, levels: Sequence[Level], *, memory_gib: float = ...) -> ExactEvaluator:
        """Return an evaluator of policies on these levels with the agent's observation."""

    def evaluate(self, levels: Sequence[Level], *, greedy: bool = ..., sampled: int | None = ...) -> Results:
        """Evaluate the agent on levels."""
