"""The base class of objectives, which map the outcome of a policy in a level to a number."""

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


def _without_steps(goals: str) -> Tensor:
    raise NotImplementedError("this outcome has no steps, so the change in attainable values is unknown")


@dataclass(frozen=True)
class PolicyOutcome:
    """The outcome of a policy in B levels with at most K lengths."""

    probability: Tensor
    """[B, K] P(L = l), padded with 0"""
    coins: Tensor
    """[B, K] P(L = l) · E[C | L = l]"""
    best_return: Tensor
    """[B, K] m(l)"""
    num_lengths: Tensor
    """[B] k"""
    by_luck: Tensor
    """[B] True for levels with luck"""
    reward: Reward
    """The reward of mini-episodes"""
    credit: str
    """``mini`` or ``meta``"""
    by_lottery: Callable[[], tuple[Tensor, Tensor, Tensor]]
    """A function that returns the probability of entering each lottery of a level under each setting of the private
    bits [Z, C, B], and its P(L = l) and E[C | L = l] [C, B, K]"""
    divergence: Callable[[str], Tensor]
    """A function from a reference (`kl.REFERENCES`) to the divergence of the policy's trajectories from it [B]"""
    attainable_change: Callable[[str], Tensor] = _without_steps
    """A function from auxiliary goals (`attainable_utility.GOALS`) to the mean, over mini-episodes, of the sum over
    ticks of the change in their attainable values [B]"""

    @property
    def coins_given_length(self) -> Tensor:
        """E[C | L = l] [B, K]; 0 for a length that is never chosen."""
        possible = self.probability > 0
        return torch.where(possible, self.coins, 0) / torch.where(possible, self.probability, 1)

    @property
    def share(self) -> Tensor:
        """P(L = l) · E[C | L = l] / m(l) [B, K]."""
        return share_of_best(self.coins, self.best_return.to(self.coins.dtype))

    @property
    def paid(self) -> Tensor:
        """P(L = l) times the mean pay given L = l, before any discount [B, K]: coins ÷ m(l), or coins if the reward
        does not divide by m."""
        if self.reward.divide_by_best:
            return self.share
        return self.coins

    @property
    def usefulness(self) -> Tensor:
        """Usefulness [B]."""
        return usefulness(self.probability, self.coins_given_length, self.best_return.to(self.coins.dtype))


@dataclass(frozen=True)
class EpisodeBatch:
    """M sampled mini-episodes in groups; the mini-episodes of a group are neighbours and share a level."""

    coins: Tensor
    """[M] the sum of the coins"""
    share: Tensor
    """[M] the coins ÷ m of the length, or the coins if the reward does not divide by m"""
    column: Tensor
    """[M] the index of the length among the level's lengths"""
    alike: Tensor
    """[M] the number of others in its group with the same length"""
    others: int
    """g − 1, the number of others in a group"""
    num_lengths: Tensor
    """[M] k of its level"""
    log_prob: Tensor
    """[M] the sum of the log-probabilities of the actions"""
    steps: Tensor
    """[M] the number of actions"""
    returns: Tensor | None = None
    """[M] what the run's reward pays"""

    def surprise(self) -> Tensor:
        """Return −log2 P [M] for the length of each mini-episode, with P estimated from the others of its group.

        Half a mini-episode is added to each length, so that P is never 0.
        """
        return -((self.alike + 0.5) / (self.others + self.num_lengths / 2)).log2()

    def entropy(self) -> Tensor:
        """Return [M] the entropy in bits of the lengths in each mini-episode's group, by the Miller-Madow estimate.

        The estimate may exceed log2 k. The plug-in estimate is too small by about (k − 1) / 2g nats, so a constraint
        near log2 k could never be met with it.
        """
        size = self.others + 1
        share = (self.alike + 1) / size  # the group's entropy is the mean of −log2 of these
        weight = 1 / (self.alike + 1)  # sums to the number of lengths that occur
        bits, occur = -share.log2().reshape(-1, size), weight.reshape(-1, size)
        corrected = bits.mean(-1, keepdim=True) + (occur.sum(-1, keepdim=True) - 1) / (2 * size * math.log(2))
        return corrected.expand_as(bits).flatten()


class Objective(ABC):
    """A function of a policy's outcomes that training maximises."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def value(self, outcome: PolicyOutcome) -> Tensor:
        """Return the value of each level [B], of about magnitude 1; its gradient trains the policy.

        It is called once in an update, so an objective may update a state of its own.
        """

    def can_be_sampled(self) -> bool:
        """Return True if the objective can be optimised from samples, as it implements `pay`."""
        return type(self).pay is not Objective.pay

    def pay(self, played: EpisodeBatch) -> Tensor:
        """Return the reward of each mini-episode [M]; its policy gradient is an estimate of the gradient of `value`.

        It is called once for each round of mini-episodes.
        """
        raise NotImplementedError

    def metrics(self) -> dict[str, Tensor]:
        """Return the metrics of the objective's state."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state; writing to these tensors restores it."""
        return {}
