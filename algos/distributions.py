"""The distributions that actions are sampled from: one of n actions, several such choices, or numbers within a box.

They are distributions of PyTorch, for TorchRL's `ProbabilisticActor`. Their parameter ``outputs`` [n, O] is what the
network of a policy returns for n states. All random numbers come from PyTorch's global generator.
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
"""The same of an untrained policy: wider, most numbers would be at the ends of the box."""
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
"""Those that integrate against the normal density, up to a factor, for the entropy."""


class _Actions(Distribution):
    """The base class: a distribution without checks, which cost more than the sampling.

    Its ``deterministic_sample``, as TorchRL calls it, is the most likely action.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, outputs: Tensor, event: int = 0) -> None:
        self.outputs = outputs
        shape = outputs.shape[:-1]
        super().__init__(shape, torch.Size([event] if event else []), validate_args=False)


class OneOf(_Actions):
    """One of O actions: the outputs are their logits. An action is its index, or a one-hot vector.

    Outputs that are logarithms of probabilities already are ``normalised``.
    """

    def __init__(self, outputs: Tensor, *, one_hot: bool = False, normalised: bool = False) -> None:
        super().__init__(outputs, outputs.shape[-1] if one_hot else 0)
        self.one_hot = one_hot
        self.log_probs = outputs if normalised else outputs.log_softmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Of exponential times with the probabilities as rates, the first is each action's with its probability.
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


class Several(_Actions):
    """Several independent choices at once: the outputs are the logits of one after the other."""

    def __init__(self, outputs: Tensor, *, counts: Sequence[int]) -> None:
        super().__init__(outputs, len(counts))
        self.parts = [OneOf(logits) for logits in outputs.split(list(counts), -1)]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return torch.stack([part.sample(sample_shape) for part in self.parts], -1)

    @property
    def deterministic_sample(self) -> Tensor:
        return torch.stack([part.deterministic_sample for part in self.parts], -1)

    def log_prob(self, value: Tensor) -> Tensor:
        each = zip(self.parts, value.unbind(-1), strict=True)
        return torch.stack([part.log_prob(chosen) for part, chosen in each]).sum(0)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts]).sum(0)


class TanhNormal(_Actions):
    """Numbers of a box [d]: normal ones, which `drest_torch.transforms.Squash` maps into the box by tanh.

    The outputs are the means, then the logarithms of the standard deviations. An action is the numbers before they are
    squashed, from which its probability is computed without loss. The probability is that of the squashed numbers,
    whose box has the size 2 · ``half`` [d].
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
        nodes, weights = (torch.from_numpy(each).float() for each in (POINTS, WEIGHTS / WEIGHTS.sum()))
        normal = self.log_spread + 0.5 * math.log(2 * math.pi * math.e)
        at_nodes = self.mean_.unsqueeze(-1) + self.log_spread.exp().unsqueeze(-1) * nodes
        return (normal + (_log_slope(at_nodes) * weights).sum(-1) + self.half.log()).sum(-1)


@register_kl(OneOf, OneOf)
def _kl_of_one(one: OneOf, other: OneOf) -> Tensor:
    return (one.log_probs.exp() * (one.log_probs - other.log_probs)).sum(-1)


@register_kl(Several, Several)
def _kl_of_several(one: Several, other: Several) -> Tensor:
    return torch.stack([_kl_of_one(*parts) for parts in zip(one.parts, other.parts, strict=True)]).sum(0)


@register_kl(TanhNormal, TanhNormal)
def _kl_of_numbers(one: TanhNormal, other: TanhNormal) -> Tensor:
    """Return the divergence of the normal numbers, which squashing does not change."""
    log_ratio = other.log_spread - one.log_spread
    distance = (one.mean_ - other.mean_) / other.log_spread.exp()
    return (log_ratio + 0.5 * ((-2 * log_ratio).exp() + distance.square() - 1)).sum(-1)


@dataclass(frozen=True)
class ActionKind:
    """A distribution of the actions of an environment, and the outputs of a network that it needs."""

    distribution: type[_Actions]
    outputs: int
    """O"""
    arguments: dict[str, Any] = field(default_factory=dict)
    bounds: tuple[Tensor, Tensor] | None = None
    """The ends of the box [d], of numbers."""

    def record(self) -> dict[str, Any]:
        """Return the kind as a JSON value, which `kind_of` reads."""
        if self.bounds is not None:
            low, high = (end.tolist() for end in self.bounds)
            return {"box": {"low": low, "high": high}}
        if self.distribution is Several:
            return {"several": self.arguments}
        return {"one_of": {"count": self.outputs, **self.arguments}}

    def of(self, outputs: Tensor) -> Any:
        """Return the distribution with these outputs."""
        return self.distribution(outputs, **self.arguments)

    def choose(self, outputs: Tensor, rng: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Return actions as an environment takes them, sampled with a generator, or the most likely ones."""
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

    def offset(self, ask: float | None) -> Tensor:
        """Return what is added to the outputs [O], so that an untrained policy asks for a delay with this probability.

        The request is the last action, also of the last of several choices, or a positive number in the last dimension;
        None: nothing is added.
        """
        offset = torch.zeros(self.outputs)
        if self.distribution is TanhNormal:
            offset[self.outputs // 2 :] = FIRST_LOG_SPREAD
            if ask is not None:
                offset[self.outputs // 2 - 1] = math.exp(FIRST_LOG_SPREAD) * torch.special.ndtri(torch.tensor(ask))
        elif ask is not None:
            options = self.arguments.get("counts", [self.outputs])[-1]
            offset[-1] = math.log((options - 1) * ask / (1 - ask))
        return offset


def one_of(count: int, **arguments: bool) -> ActionKind:
    """Return the kind of one of ``count`` actions, with the arguments of `OneOf`."""
    return ActionKind(OneOf, count, arguments)


def several(counts: Sequence[int]) -> ActionKind:
    """Return the kind of several choices at once, with so many options each."""
    return ActionKind(Several, sum(counts), {"counts": list(counts)})


def box(low: Tensor, high: Tensor) -> ActionKind:
    """Return the kind of numbers between these bounds [d], which are finite."""
    return ActionKind(TanhNormal, 2 * len(low), {"half": (high - low) / 2}, (low, high))


def kind_of(record: Mapping[str, Any]) -> ActionKind:
    """Return the kind that `ActionKind.record` has written; a `ValueError` says what is wrong with a stranger's."""
    try:
        ((name, values),) = record.items()
        if name == "one_of":
            flags = {flag: bool(values[flag]) for flag in ("one_hot", "normalised") if flag in values}
            return one_of(int(values["count"]), **flags)
        if name == "several":
            return several([int(count) for count in values["counts"]])
        if name == "box":
            return box(torch.tensor(values["low"]), torch.tensor(values["high"]))
    except (LookupError, TypeError, AttributeError, OverflowError):
        pass
    raise ValueError(f"actions is {record!r:.60}")


def _log_slope(number: Tensor) -> Tensor:
    """Return log(1 − tanh²(u)), without loss where tanh is flat."""
    return 2 * (math.log(2) - number - torch.nn.functional.softplus(-2 * number))
