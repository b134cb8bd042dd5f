"""Advantage actor-critic (Mnih et al. 2016, synchronous): each minibatch is used once."""

from __future__ import annotations

from dataclasses import dataclass

from drest_torch.algos.base import CriticConfig, SampledLearner


@dataclass
class Config(CriticConfig):
    """The settings of A2C."""


class A2C(SampledLearner):
    """A2C: the log-probability of each action times its advantage."""

    needs_critic = True


Algorithm = A2C
