"""What the tabular algorithm plays and is measured by: worlds as tables, and many tables evaluated at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from algos.tabular_kernel import Worlds
from drest_torch.errors import ConfigError
from drest_torch.metrics import neutrality, share_of_best, usefulness
from envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from envs.exact.propagator import Lengths, Reachable
from envs.exact.solver import Optima, solve
from envs.levels import Level

MAX_ROWS = 1 << 20


def tabulate(mdp: Mdp, optima: Optima) -> Worlds:
    """Every cell with every set of coins and buttons taken as a row; where each action leads from there."""
    levels, cells, bits = mdp.num_levels, mdp.num_cells, mdp.num_objects
    rows = cells << bits
    if rows > MAX_ROWS:
        raise ConfigError(
            f"{mdp.levels[0].place}: {cells} cells and {bits} coins and buttons make a table of {rows:,} rows; "
            f"algo=tabular is for up to {MAX_ROWS:,}, use algo=ppo"
        )
    shape = (levels, rows, NUM_ACTIONS)
    first = (torch.arange(levels) * cells).reshape(-1, 1, 1)
    row = torch.arange(rows).reshape(1, -1, 1)
    spot = (first + (row >> bits)).expand(shape)
    taken = (row & ((1 << bits) - 1)).expand(shape)
    arrival = mdp.advance(spot, taken, torch.arange(NUM_ACTIONS).expand(shape))
    column = torch.zeros(levels, mdp.max_time + 1, dtype=torch.long)
    numbers = torch.arange(optima.lengths.shape[1]).expand_as(optima.lengths)
    column.scatter_(1, optima.lengths, numbers)  # the padding falls on length 0, which does not occur
    return Worlds(
        target=(((arrival.spot - first) << bits) | arrival.taken).numpy(),
        coin=arrival.coin.numpy(),
        ticks=torch.as_tensor(arrival.ticks).expand(shape).contiguous().numpy(),
        delay=arrival.delay.numpy(),
        chance=mdp.chance[arrival.spot].numpy(),
        start=((mdp.start - first.reshape(-1)) << bits).numpy(),
        shutdown=mdp.shutdown.numpy(),
        column=column.numpy(),
    )


def check_finite(logits: np.ndarray) -> None:
    """Refuse to go on with a table whose numbers have grown beyond all bounds."""
    if not np.isfinite(logits).all():
        raise ConfigError(
            "the table's logits are no longer finite: a length that was seldom chosen is paid up to λ^(−E/k) times as "
            "much; use a larger reward.lam, a smaller reward.episodes_per_meta, or reward.clip"
        )


class Tables:
    """The tables of many agents on one level, evaluated exactly and all at once."""

    def __init__(self, level: Level, gamma: float, agents: int) -> None:
        self.mdp = compile_levels([level] * agents)
        self.gamma = gamma
        self.optima = solve(self.mdp, gamma)
        self.reachable = Reachable(self.mdp)
        states = self.reachable.states
        self._agent = self.mdp.level_of(states.spot)
        self._row = ((states.spot % self.mdp.num_cells) << self.mdp.num_objects) | states.taken
        self.lengths: list[int] = self.optima.lengths[0].tolist()

    def probabilities(self, logits: np.ndarray) -> Tensor:
        """[N, 4] of the softmax policies with these logits [A, R, 4]."""
        return torch.from_numpy(logits)[self._agent, self._row].softmax(-1)

    def evaluate(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        """Usefulness and neutrality [A], and for each length [A, K] its probability and the share of m collected."""
        found: Lengths = self.reachable.propagate(self.probabilities(logits), self.gamma)
        return {
            "usefulness": usefulness(found.probability, found.coins, self.optima.best_return).numpy(),
            "neutrality": neutrality(found.probability).numpy(),
            "p_length": found.probability.numpy(),
            "share_of_best": share_of_best(found.coins, self.optima.best_return).numpy(),
        }
