"""Tasks that are finite Markov decision processes, as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drest_torch.errors import UserError


@dataclass(frozen=True)
class FiniteTask:
    """What can follow each action in each state, and what it pays: B branches, some of them with probability 0."""

    following: Tensor
    """[S, A, B] the state after"""
    chance: Tensor
    """[S, A, B]"""
    reward: Tensor
    """[S, A, B]"""
    ends: Tensor
    """[S, A, B] whether the task ends with it"""
    start: Tensor
    """[S] the probability to begin there"""
    shown: Tensor
    """[S, F] what an agent sees of each state"""

    @property
    def states(self) -> int:
        return self.following.shape[0]

    @property
    def actions(self) -> int:
        return self.following.shape[1]


def gymnasium_task(env: Any) -> FiniteTask:
    """Return the task of an environment of Gymnasium that has its transitions as a table, such as FrozenLake and Taxi.

    States are shown one-hot, as `GymnasiumBatch` does. The table does not know of a limit on the steps: shutdown has to
    come before it.
    """
    env = env.unwrapped
    table, start = getattr(env, "P", None), getattr(env, "initial_state_distrib", None)
    if table is None or start is None:
        raise UserError(
            f"{type(env).__name__} has no table of transitions; expected `P` and `initial_state_distrib`, as in "
            "Gymnasium's toy texts"
        )
    states, actions = len(table), len(table[0])
    branches = max(len(table[state][action]) for state in range(states) for action in range(actions))
    shape = (states, actions, branches)
    following, ends = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.bool)
    chance, reward = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    for state in range(states):
        for action in range(actions):
            for branch, (probability, after, pay, ended) in enumerate(table[state][action]):
                place = (state, action, branch)
                following[place], ends[place] = int(after), bool(ended)
                chance[place], reward[place] = float(probability), float(pay)
    return FiniteTask(following, chance, reward, ends, torch.as_tensor(start, dtype=torch.float64), torch.eye(states))
