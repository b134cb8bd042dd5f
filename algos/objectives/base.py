"""The base class of objectives: a number for each level, from what a policy comes to there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import MISSING
from torch import Tensor

from drest_torch.reward import Reward


@dataclass
class ObjectiveConfig:
    """The settings of every objective."""

    name: str = MISSING


@dataclass(frozen=True)
class Outcome:
    """What a policy comes to in B levels with at most K lengths."""

    probability: Tensor
    """[B, K] P(L = l), padded with 0"""
    coins: Tensor
    """[B, K] P(L = l) · E[C | L = l]"""
    best_return: Tensor
    """[B, K] m(l)"""
    num_lengths: Tensor
    """[B] k"""
    by_luck: Tensor
    """[B] whether anything in the level depends on luck"""
    reward: Reward
    """the rule that pays mini-episodes"""
    credit: str
    """``mini`` or ``meta``"""
    by_lottery: Callable[[], tuple[Tensor, Tensor, Tensor]]
    """→ how often each lottery of a level is entered under each setting of the private bits [Z, C, B], and its P(L = l)
    and E[C | L = l] [C, B, K]"""
    divergence: Callable[[str], Tensor]
    """reference (`kl.REFERENCES`) → the divergence of the policy's trajectories from it [B]"""


def conditional(outcome: Outcome) -> Tensor:
    """Return E[C | L = l] [B, K]; 0 for a length that is never taken."""
    possible = outcome.probability > 0
    return torch.where(possible, outcome.coins, 0) / torch.where(possible, outcome.probability, 1)


class Objective(ABC):
    """What a policy is trained to make large."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def value(self, outcome: Outcome) -> Tensor:
        """Return the value of each level [B], of a size of about 1; its gradient trains the policy.

        It is called once for an update, so that an objective with a state of its own can move it.
        """

    def metrics(self) -> dict[str, Tensor]:
        """Return what is to be logged of the objective's state."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state; writing to these tensors restores it."""
        return {}
