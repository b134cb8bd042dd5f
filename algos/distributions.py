"""Action distributions: categorical, a product of categorical ones, or a squashed normal distribution in a box.

They are PyTorch distributions, for TorchRL's `ProbabilisticActor`. Their parameters ``outputs`` [n, O] are the outputs
of a policy's network for n states. All random numbers come from PyTorch's global generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, register_kl

LOG_SPREAD = (-4.0, 1.0)
"""The range of the logarithm of a standard deviation."""
FIRST_LOG_SPREAD = -0.5
"""The log standard deviation of an untrained policy; with a larger one most actions would lie near the bounds of the
box."""
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
"""Nodes and weights of Gauss-Hermite quadrature, for the entropy."""


class _Actions(Distribution):
    """The base class: a distribution without argument checks, which would cost more than sampling.

    Its ``deterministic_sample`` (TorchRL's name) is the most likely action.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, outputs: Tensor, event: int = 0) -> None:
        self.outputs = outputs
        shape = outputs.shape[:-1]
        super().__init__(shape, torch.Size([event] if event else []), validate_args=False)


class OneOf(_Actions):
    """A categorical distribution over O actions with the outputs as logits; samples are indices or one-hot vectors.

    ``normalised`` outputs are already log-probabilities.
    """

    def __init__(self, outputs: Tensor, *, one_hot: bool = False, normalised: bool = False) -> None:
        super().__init__(outputs, outputs.shape[-1] if one_hot else 0)
        self.one_hot = one_hot
        self.log_probs = outputs if normalised else outputs.log_softmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Exponential race: with the probabilities as rates, an action comes first with its probability.
        outputs = self.outputs.detach().expand(*sample_shape, *self.outputs.shape)
        times = -torch.rand_like(outputs).clamp_min(1e-20).log()
        return self._played((outputs - times.log()).argmax(-1))

    @property
    def deterministic_sample(self) -> Tensor:
        return self._played(self.outputs.argmax(-1))

    def _played(self, index: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(index, self.outputs.shape[-1]).bool() if self.one_hot else index

    def log_prob(self, value: Tensor) -> Tensor:
        index = value.long().argmax(-1) if self.one_hot else value
        log_probs = self.log_probs.expand(*index.shape, self.log_probs.shape[-1])
        return log_probs.gather(-1, index.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(-1)


class MultiCategorical(_Actions):
    """A product of independent categorical distributions, whose logits are concatenated in the outputs."""

    def __init__(self, outputs: Tensor, *, counts: Sequence[int]) -> None:
        super().__init__(outputs, len(counts))
        self.parts = [OneOf(logits) for logits in outputs.split(list(counts), -1)]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return torch.stack([part.sample(sample_shape) for part in self.parts], -1)

    @property
    def deterministic_sample(self) -> Tensor:
        return torch.stack([part.deterministic_sample for part in self.parts], -1)

    def log_prob(self, value: Tensor) -> Tensor:
        choices = zip(self.parts, value.unbind(-1), strict=True)
        return torch.stack([part.log_prob(choice) for part, choice in choices]).sum(0)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts]).sum(0)


class TanhNormal(_Actions):
    """A normal distribution over d numbers, which `drest_torch.transforms.Squash` maps into a box by tanh.

    The outputs are the means, then the logarithms of the standard deviations. A sample is unsquashed, so that its
    log-probability is computed without rounding; the density is that of the squashed numbers. The box has the size
    2 · ``half`` [d].
    """

    def __init__(self, outputs: Tensor, *, half: Tensor) -> None:
        super().__init__(outputs, len(half))
        self.half = half
        self.mean_, log_spread = outputs.chunk(2, dim=-1)
        self.log_spread = log_spread.clamp(*LOG_SPREAD)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        mean = self.mean_.detach().expand(*sample_shape, *self.mean_.shape)
        return mean + self.log_spread.detach().exp() * torch.randn_like(mean)

    @property
    def deterministic_sample(self) -> Tensor:
        return self.mean_

    def log_prob(self, value: Tensor) -> Tensor:
        distance = (value - self.mean_) / self.log_spread.exp()
        normal = -0.5 * distance.square() - self.log_spread - 0.5 * math.log(2 * math.pi)
        return (normal - _log_slope(value) - self.half.log()).sum(-1)

    def entropy(self) -> Tensor:
        nodes = torch.from_numpy(POINTS).float()
        weights = torch.from_numpy(WEIGHTS / WEIGHTS.sum()).float()
        normal = self.log_spread + 0.5 * math.log(2 * math.pi * math.e)
        at_nodes = self.mean_.unsqueeze(-1) + self.log_spread.exp().unsqueeze(-1) * nodes
        return (normal + (_log_slope(at_nodes) * weights).sum(-1) + self.half.log()).sum(-1)


@register_kl(OneOf, OneOf)
def _categorical_kl(p: OneOf, q: OneOf) -> Tensor:
    return (p.log_probs.exp() * (p.log_probs - q.log_probs)).sum(-1)


@register_kl(MultiCategorical, MultiCategorical)
def _multi_categorical_kl(p: MultiCategorical, q: MultiCategorical) -> Tensor:
    parts = zip(p.parts, q.parts, strict=True)
    return torch.stack([_categorical_kl(of_p, of_q) for of_p, of_q in parts]).sum(0)


@register_kl(TanhNormal, TanhNormal)
def _tanh_normal_kl(p: TanhNormal, q: TanhNormal) -> Tensor:
    """Return the divergence of the normal distributions, which squashing does not change."""
    log_ratio = q.log_spread - p.log_spread
    distance = (p.mean_ - q.mean_) / q.log_spread.exp()
    return (log_ratio + 0.5 * ((-2 * log_ratio).exp() + distance.square() - 1)).sum(-1)


@dataclass(frozen=True)
class ActionKind:
    """The action distribution for an environment, and the number of network outputs that it needs."""

    distribution: type[_Actions]
    outputs: int
    """The number O of network outputs."""
    arguments: dict[str, Any] = field(default_factory=dict)
    bounds: tuple[Tensor, Tensor] | None = None
    """The bounds of the box [d]."""

    def record(self) -> dict[str, Any]:
        """Return the kind as a JSON value for `kind_of`."""
        if self.bounds is not None:
            low, high = (end.tolist() for end in self.bounds)
            return {"box": {"low": low, "high": high}}
        if self.distribution is MultiCategorical:
            return {"several": self.arguments}
        return {"one_of": {"count": self.outputs, **self.arguments}}

    def of(self, outputs: Tensor) -> Any:
        """Return the distribution with these outputs."""
        return self.distribution(outputs, **self.arguments)

    def choose(self, outputs: Tensor, rng: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Return actions for an environment, sampled with a generator, or the most likely ones."""
        dist = self.of(outputs)
        if greedy:
            actions = dist.deterministic_sample
        elif isinstance(dist, OneOf) and not dist.one_hot:
            actions = torch.multinomial(outputs.softmax(-1), 1, generator=rng).squeeze(-1)
        else:
            seed = int(torch.randint(2**62, (), generator=rng, device=rng.device))
            with torch.random.fork_rng([rng.device] if rng.device.type == "cuda" else []):
                torch.manual_seed(seed)
                actions = dist.sample()
        if self.bounds is None:
            return actions
        from drest_torch.transforms.squash import squashed  # TorchRL takes seconds to import

        return squashed(actions, *self.bounds)

    def offset(self, request_probability: float | None) -> Tensor:
        """Return the offset of the outputs [O] that makes an untrained policy request a delay with this probability.

        The request is the last action (of the last categorical distribution), or a positive number in the last
        dimension. With None the policy keeps its own probability.
        """
        offset = torch.zeros(self.outputs)
        dimensions = self.outputs // 2
        if self.distribution is TanhNormal:
            offset[dimensions:] = FIRST_LOG_SPREAD
            if request_probability is not None:
                quantile = torch.special.ndtri(torch.tensor(request_probability))
                offset[dimensions - 1] = math.exp(FIRST_LOG_SPREAD) * quantile
        elif request_probability is not None:
            options = self.arguments.get("counts", [self.outputs])[-1]
            offset[-1] = math.log((options - 1) * request_probability / (1 - request_probability))
        return offset


def one_of(count: int, **arguments: bool) -> ActionKind:
    """Return the kind of a choice among ``count`` actions, with the arguments of `OneOf`."""
    return ActionKind(OneOf, count, arguments)


def multi_categorical(counts: Sequence[int]) -> ActionKind:
    """Return the kind of simultaneous choices with these numbers of options."""
    return ActionKind(MultiCategorical, sum(counts), {"counts": list(counts)})


def box(low: Tensor, high: Tensor) -> ActionKind:
    """Return the kind of actions that are numbers between finite bounds [d]."""
    return ActionKind(TanhNormal, 2 * len(low), {"half": (high - low) / 2}, (low, high))


def kind_of(record: Mapping[str, Any]) -> ActionKind:
    """Return the kind of a record that `ActionKind.record` wrote; raise a `ValueError` for an invalid one."""
    try:
        ((name, values),) = record.items()
        if name == "one_of":
            flags = {flag: bool(values[flag]) for flag in ("one_hot", "normalised") if flag in values}
            return one_of(int(values["count"]), **flags)
        if name == "several":
            return multi_categorical([int(count) for count in values["counts"]])
        if name == "box":
            return box(torch.tensor(values["low"]), torch.tensor(values["high"]))
    except (LookupError, TypeError, AttributeError, OverflowError):
        pass
    raise ValueError(f"actions is {record!r:.60}")


def _log_slope(number: Tensor) -> Tensor:
    """Return log(1 − tanh²(u)), accurate where tanh is flat."""
    return 2 * (math.log(2) - number - torch.nn.functional.softplus(-2 * number))
