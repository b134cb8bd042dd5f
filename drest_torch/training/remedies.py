"""Remedies against erosion: what can keep an agent neutral while it is trained on something else.

A `Remedy` is applied to a run before its further training. It changes the policy or the algorithm of this run only, and
the training loop is the same as before.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from drest_torch.algos.base import Algorithm, NetworkAlgorithm
from drest_torch.algos.networks.base import CachedWeights
from drest_torch.errors import ConfigError
from drest_torch.limits import limited, limits_of

LAST = "last"
"""The pattern for the weights of the last layer."""


@dataclass(frozen=True)
class Remedy:
    """A remedy, or several that are applied together; None stands for one that is not used."""

    mix: int | None = limited(at_least=1, default=None)
    """One in so many updates has the agent's own reward: 10 for a tenth of them."""
    tie: float | None = limited(at_least=0, at_most=1, default=None)
    """A mask on the logits: where the trained agent's second action had at least this share of the probability of the
    most likely one, the logits of these two actions stay equal. 0 ties them in all states."""
    freeze: tuple[str, ...] = ()
    """The weights of the policy that do not change: ``last`` for the last layer, or patterns for names of weights such
    as ``net.body.0.*``."""
    penalty: float | None = limited(above=0, default=None)
    """The weight of a penalty towards the trained agent: the divergence of actions from its actions in nats, averaged
    over ticks."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            limits, value = limits_of(entry), getattr(self, entry.name)
            if limits is not None and value is not None and not limits.allow(value):
                raise ConfigError(f"{entry.name}={value}; expected {limits}")

    def has_own_reward(self, update: int) -> bool:
        """Return whether an update, counted from 1, has the agent's own reward."""
        return self.mix is not None and update % self.mix == 0

    def apply(self, algorithm: Algorithm) -> None:
        """Change the policy and the algorithm of a run that is about to train further."""
        if self == Remedy(mix=self.mix):
            return
        if not isinstance(algorithm, NetworkAlgorithm):
            raise ConfigError("the remedies tie, freeze and penalty are for networks, and this agent is a table")
        trained = fixed_copy(algorithm.policy)
        if self.tie is not None:
            tie(algorithm.policy, trained, self.tie)
        if self.freeze:
            freeze(algorithm.policy, self.freeze)
        if self.penalty is not None:
            algorithm.stay_close(trained, self.penalty)


def share_networks(algorithm: Algorithm, other: Algorithm) -> None:
    """Let an algorithm train the weights of another one with the same networks, by its optimisers."""
    if not isinstance(algorithm, NetworkAlgorithm) or not isinstance(other, NetworkAlgorithm):
        raise ConfigError("the remedy mix is for networks, and this agent is a table")
    for module, source in zip(algorithm.networks.modules(), other.networks.modules(), strict=True):
        module._parameters.update(source._parameters)
    algorithm.weights, algorithm.optimizers = other.weights, other.optimizers


def fixed_copy(policy: nn.Module) -> Any:
    """Return a copy of a policy with weights that do not change."""
    copy = deepcopy(policy).requires_grad_(False)
    for part in copy.modules():
        if isinstance(part, CachedWeights):
            part.forget()
    return copy


def tie(policy: nn.Module, trained: Any, share: float) -> None:
    """Keep the logits of two actions of a policy equal where a trained policy chose nearly evenly among them."""

    def tied(_: nn.Module, inputs: tuple[Any, ...], named_inputs: dict[str, Any], logits: Tensor) -> Tensor:
        with torch.no_grad():
            probability, actions = trained(*inputs, **named_inputs).softmax(-1).topk(2, dim=-1)
        is_even = probability[..., 1:] >= share * probability[..., :1]
        pair = logits.gather(-1, actions)
        equal = pair.mean(-1, keepdim=True).expand_as(pair)
        return logits.scatter(-1, actions, torch.where(is_even, equal, pair))

    policy.register_forward_hook(tied, with_kwargs=True)


def freeze(policy: nn.Module, patterns: tuple[str, ...]) -> None:
    """Freeze the weights of a policy whose names match one of the patterns."""
    weights = dict(policy.named_parameters())
    for pattern in patterns:
        names = matching(pattern, [*weights])
        if not names:
            raise ConfigError(f"freeze={pattern}: matches no weights; expected last, or some of {', '.join(weights)}")
        for name in names:
            weights[name].requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise ConfigError(f"freeze={','.join(patterns)}: leaves no weights to train; freeze fewer")


def matching(pattern: str, names: list[str]) -> list[str]:
    """Return the names of weights that match a pattern.

    The last layer has a name that begins with ``last``, or is the module of the last weight.
    """
    if pattern != LAST:
        return [name for name in names if fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")]
    named = [name for name in names if name.rpartition(".")[-1].startswith(LAST)]
    module, _, _ = names[-1].rpartition(".")
    return named or [name for name in names if name.rpartition(".")[0] == module]
