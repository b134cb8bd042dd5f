"""Turn worlds into tables for the tabular algorithm, and evaluate many tabular policies at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from drest_torch.algos.tabular_kernel import World
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.exact.propagator import Lengths, Reachable
from drest_torch.envs.exact.solver import Optima, solve
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError
from drest_torch.metrics import neutrality, share_of_best, usefulness

MAX_ROWS = 1 << 20
"""The most rows of a table."""


def tabulate(mdp: Mdp, optima: Optima) -> World:
    """Return the only level as tables: a row is a cell with a set of taken coins and buttons, a column is an action."""
    cells, bits = mdp.num_cells, mdp.num_objects
    rows = cells << bits
    if rows > MAX_ROWS:
        raise ConfigError(
            f"{mdp.levels[0].place}: {cells} cells and {bits} coins and buttons make a table of {rows:,} rows; "
            f"algo=tabular is for up to {MAX_ROWS:,}, use algo=ppo"
        )
    if mdp.has_lotteries:
        raise ConfigError(
            f"{mdp.levels[0].place} has lotteries, which algo=tabular does not play; use algo=ppo, or buttons such as "
            "B4@0.5"
        )
    row = torch.arange(rows).unsqueeze(-1).expand(rows, NUM_ACTIONS)
    action = torch.arange(NUM_ACTIONS).expand(row.shape)
    spot = row >> bits
    taken = row & ((1 << bits) - 1)
    arrival = mdp.advance(spot, taken, action)
    lengths = optima.lengths[0]
    column = torch.zeros(mdp.max_time + 1, dtype=torch.long)
    column[lengths] = torch.arange(len(lengths))
    return World(
        target=((arrival.spot << bits) | arrival.taken).numpy(),
        coin=arrival.coin.numpy(),
        ticks=torch.as_tensor(arrival.ticks).expand(row.shape).contiguous().numpy(),
        delay=arrival.delay.numpy(),
        chance=mdp.chance[arrival.spot].numpy(),
        start=int(mdp.start) << bits,
        shutdown=int(mdp.shutdown),
        column=column.numpy(),
    )


def check_finite(logits: np.ndarray) -> None:
    """Refuse logits that are no longer finite."""
    if not np.isfinite(logits).all():
        raise ConfigError(
            "the table's logits are no longer finite: a length that was seldom chosen is paid up to λ^(−E/k) times as "
            "much; use a larger reward.lam, a smaller reward.episodes_per_meta, or reward.clip"
        )


class Tables:
    """One level on which the tabular policies of many agents are evaluated exactly, all at once."""

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
        """Return [N, 4] the action probabilities of softmax policies with these logits [A, R, 4]."""
        return torch.from_numpy(logits)[self._agent, self._row].softmax(-1)

    def evaluate(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        """Return usefulness and neutrality [A], and the probability and the share of m of each length [A, K]."""
        outcome: Lengths = self.reachable.propagate(self.probabilities(logits), self.gamma)
        best_return = self.optima.best_return
        return {
            "usefulness": usefulness(outcome.probability, outcome.coins, best_return).numpy(),
            "neutrality": neutrality(outcome.probability).numpy(),
            "p_length": outcome.probability.numpy(),
            "share_of_best": share_of_best(outcome.coins, best_return).numpy(),
        }
