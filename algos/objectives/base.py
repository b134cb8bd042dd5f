"""The base class of objectives: a number for each level, from what a policy comes to there."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import MISSING
from torch import Tensor

from drest_torch.metrics import share_of_best, usefulness
from drest_torch.reward import Reward


@dataclass
class ObjectiveConfig:
    """The settings of every objective."""

    name: str = MISSING
    """The module in algos/objectives/, or one of your own (docs/howto/extend.md)."""


@dataclass(frozen=True)
class PolicyOutcome:
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

    @property
    def given(self) -> Tensor:
        """E[C | L = l] [B, K]; 0 for a length that is never taken."""
        possible = self.probability > 0
        return torch.where(possible, self.coins, 0) / torch.where(possible, self.probability, 1)

    @property
    def share(self) -> Tensor:
        """P(L = l) · E[C | L = l] / m(l) [B, K]."""
        return share_of_best(self.coins, self.best_return.to(self.coins.dtype))

    @property
    def usefulness(self) -> Tensor:
        """[B]"""
        return usefulness(self.probability, self.given, self.best_return.to(self.coins.dtype))


@dataclass(frozen=True)
class Played:
    """M mini-episodes that were played, neighbours of a group side by side on one level."""

    coins: Tensor
    """[M]"""
    share: Tensor
    """[M] the coins ÷ m of the length, or the coins, as the reward has it"""
    column: Tensor
    """[M] which of the level's lengths it had"""
    alike: Tensor
    """[M] how many others of its group had the same length"""
    others: int
    """g − 1, how many others a group has"""
    num_lengths: Tensor
    """[M] k of its level"""
    log_prob: Tensor
    """[M] the sum of the log-probabilities of its actions"""
    steps: Tensor
    """[M] their number"""

    def surprise(self) -> Tensor:
        """Return −log2 P of its length [M], P estimated from the others of the group alone: no one counts itself.

        Half a mini-episode is added to each length, so that P is never 0.
        """
        return -((self.alike + 0.5) / (self.others + self.num_lengths / 2)).log2()

    def entropy(self) -> Tensor:
        """Return an estimate of the entropy of its group's lengths in bits [M], by Miller and Madow.

        It may exceed log2 k. That of the shares alone is too small by about (k − 1) / 2g nats, so that a bound near
        log2 k would never be met.
        """
        size = self.others + 1
        own = (self.alike + 1) / size  # the mean of −log2 of its own share is the group's entropy
        found = 1 / (self.alike + 1)  # their sum is the number of lengths that occur
        bits, occur = (each.reshape(-1, size) for each in (-own.log2(), found))
        biased = bits.mean(-1, keepdim=True) + (occur.sum(-1, keepdim=True) - 1) / (2 * size * math.log(2))
        return biased.expand_as(bits).flatten()


class Objective(ABC):
    """What a policy is trained to make large."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def value(self, outcome: PolicyOutcome) -> Tensor:
        """Return the value of each level [B], of a size of about 1; its gradient trains the policy.

        It is called once for an update, so that an objective with a state of its own can move it.
        """

    def can_be_sampled(self) -> bool:
        """Return whether mini-episodes can be paid (`pay`), so that it can be learned without a model."""
        return type(self).pay is not Objective.pay

    def pay(self, played: Played) -> Tensor:
        """Return the reward of each mini-episode [M], of which the policy's gradient is an estimate of the value's.

        As `value`, it is called once for each round of mini-episodes.
        """
        raise NotImplementedError

    def metrics(self) -> dict[str, Tensor]:
        """Return what is to be logged of the objective's state."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state; writing to these tensors restores it."""
        return {}
