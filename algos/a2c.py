"""Advantage actor-critic (Mnih et al. 2016, synchronous): each minibatch is used once."""

from __future__ import annotations

from dataclasses import dataclass

from algos.base import CriticConfig, SampledLearner


@dataclass
class Config(CriticConfig):
    pass


class A2C(SampledLearner):
    needs_critic = True


Algorithm = A2C
