"""Exact evaluation of many tabular policies on one level in parallel."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Lengths, Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Level
from drest_torch.metrics import neutrality, share_of_best, usefulness


class Tables:
    """One level for exact evaluation of the tabular policies of many agents in parallel."""

    def __init__(self, level: Level, gamma: float, agents: int) -> None:
        self.mdp = compile_levels([level] * agents)
        self.gamma = gamma
        self.optima = solve(self.mdp, gamma)
        self.reachable = Reachable(self.mdp)
        states = self.reachable.states
        cell = states.spot % self.mdp.num_cells
        self._agent = self.mdp.level_of(states.spot)
        self._row = (cell << self.mdp.num_objects) | states.taken
        self.lengths: list[int] = self.optima.lengths[0].tolist()

    def probabilities(self, logits: np.ndarray) -> Tensor:
        """Return the action probabilities [N, 4] of softmax policies with logits [A, R, 4]."""
        return torch.from_numpy(logits)[self._agent, self._row].softmax(-1)

    def evaluate(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        """Return usefulness and neutrality [A], and the probability and the share of m(l) of each length [A, K]."""
        outcome: Lengths = self.reachable.propagate(self.probabilities(logits), self.gamma)
        best_return = self.optima.best_return
        return {
            "usefulness": usefulness(outcome.probability, outcome.coins, best_return).numpy(),
            "neutrality": neutrality(outcome.probability).numpy(),
            "p_length": outcome.probability.numpy(),
            "share_of_best": share_of_best(outcome.coins, best_return).numpy(),
        }
