"""The distributions that actions are sampled from: one of n actions, several such choices, or numbers within a box.

A policy's network has ``outputs`` numbers for each state. What a batch stores of an action is ``[n]`` its index,
``[n, d]`` the index of each choice, or ``[n, d]`` the numbers before they are squashed, from which its probability is
computed without loss.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from drest_torch.algos.batch import sample
from drest_torch.algos.generators import Generators

LOG_SPREAD = (-4.0, 1.0)
"""The range of the logarithm of a standard deviation."""
FIRST_LOG_SPREAD = -0.5
"""The same of an untrained policy: wider, most numbers would be at the ends of the box."""
NODES = 8
"""Points of the quadrature for the entropy."""


class Distribution(ABC):
    """A distribution of actions, from the outputs [n, O] of a policy's network."""

    outputs: int
    """O"""

    @abstractmethod
    def sample(self, outputs: Tensor, rng: Generators) -> Tensor:
        """Sample an action for each row, as a batch stores it."""

    @abstractmethod
    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        """Return the log-probability [n] of each row's action."""

    @abstractmethod
    def entropy(self, outputs: Tensor) -> Tensor:
        """Return the entropy [n] in nats."""

    @abstractmethod
    def played(self, action: Tensor) -> Tensor:
        """Return the action as the environment takes it."""

    @abstractmethod
    def offset(self, ask: float | None) -> Tensor:
        """Return what is added to the outputs [O], so that an untrained policy asks for a delay with this probability.

        The request is the last action, also of the last of several choices, or a positive number in the last dimension;
        None: nothing is added.
        """


class OneOf(Distribution):
    """One of ``count`` actions: the outputs are their logits. An environment may take it as a one-hot vector."""

    def __init__(self, count: int, *, one_hot: bool = False) -> None:
        self.outputs, self.one_hot = count, one_hot

    def sample(self, outputs: Tensor, rng: Generators) -> Tensor:
        return sample(outputs, rng.uniform(*outputs.shape))

    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        return outputs.log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        log_probs = outputs.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)

    def played(self, action: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(action, self.outputs).bool() if self.one_hot else action

    def offset(self, ask: float | None) -> Tensor:
        offset = torch.zeros(self.outputs)
        if ask is not None:
            offset[-1] = math.log((self.outputs - 1) * ask / (1 - ask))
        return offset


class Several(Distribution):
    """Several choices at once, independent of each other: the outputs are the logits of one after the other."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.parts, self.outputs = [OneOf(count) for count in counts], sum(counts)

    def _split(self, outputs: Tensor) -> Iterator[tuple[OneOf, Tensor]]:
        logits = outputs.split([part.outputs for part in self.parts], -1)
        return zip(self.parts, logits, strict=True)

    def sample(self, outputs: Tensor, rng: Generators) -> Tensor:
        return torch.stack([part.sample(logits, rng) for part, logits in self._split(outputs)], -1)

    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        each = zip(self._split(outputs), action.unbind(-1), strict=True)
        return torch.stack([part.log_prob(logits, chosen) for (part, logits), chosen in each]).sum(0)

    def entropy(self, outputs: Tensor) -> Tensor:
        return torch.stack([part.entropy(logits) for part, logits in self._split(outputs)]).sum(0)

    def played(self, action: Tensor) -> Tensor:
        return action

    def offset(self, ask: float | None) -> Tensor:
        return torch.cat([*(part.offset(None) for part in self.parts[:-1]), self.parts[-1].offset(ask)])


class TanhNormal(Distribution):
    """Normal numbers, squashed by tanh into a box [d]: the outputs are the means, then the log-deviations."""

    def __init__(self, low: Tensor, high: Tensor) -> None:
        if not (torch.isfinite(low).all() and torch.isfinite(high).all()):
            raise ValueError("a box without bounds; expected finite ones")
        self.middle, self.half = (low + high) / 2, (high - low) / 2
        self.outputs = 2 * len(low)
        nodes, weights = torch.tensor(_hermite(NODES)).float()
        self._nodes, self._weights = nodes, weights

    def _split(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_spread = outputs.chunk(2, dim=-1)
        return mean, log_spread.clamp(*LOG_SPREAD)

    def sample(self, outputs: Tensor, rng: Generators) -> Tensor:
        mean, log_spread = self._split(outputs)
        uniform = rng.uniform(*mean.shape, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
        return mean + log_spread.exp() * torch.special.ndtri(uniform).to(mean.dtype)

    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        mean, log_spread = self._split(outputs)
        normal = -0.5 * ((action - mean) / log_spread.exp()).square() - log_spread - 0.5 * math.log(2 * math.pi)
        return (normal - _log_slope(action) - self.half.log()).sum(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        mean, log_spread = self._split(outputs)
        normal = log_spread + 0.5 * math.log(2 * math.pi * math.e)
        slope = (_log_slope(mean.unsqueeze(-1) + log_spread.exp().unsqueeze(-1) * self._nodes) * self._weights).sum(-1)
        return (normal + slope + self.half.log()).sum(-1)

    def played(self, action: Tensor) -> Tensor:
        return self.middle + self.half * action.tanh()

    def offset(self, ask: float | None) -> Tensor:
        offset = torch.zeros(self.outputs)
        offset[self.outputs // 2 :] = FIRST_LOG_SPREAD
        if ask is not None:  # the request is a positive number
            offset[self.outputs // 2 - 1] = math.exp(FIRST_LOG_SPREAD) * torch.special.ndtri(torch.tensor(ask))
        return offset


def _log_slope(number: Tensor) -> Tensor:
    """Return log(1 − tanh²(u)), without loss where tanh is flat."""
    return 2 * (math.log(2) - number - torch.nn.functional.softplus(-2 * number))


def _hermite(nodes: int) -> list[list[float]]:
    """Return the points and weights that integrate against the normal density."""
    import numpy as np

    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return [points.tolist(), (weights / weights.sum()).tolist()]
