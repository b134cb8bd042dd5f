"""Networks as modules of TorchRL: an actor, a critic, and `Once`, which looks each distinct state up once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.modules import ProbabilisticActor

from drest_torch.algos.distributions import ActionKind
from drest_torch.algos.networks.policy import number_of, settings_of

PRIVATE = "private_bits"
"""The key of the private bits of a mini-episode."""
COUNTS = "drest_log_discounts"
"""The key of what a critic may see of the meta-episode: the log of the discount that each length would get."""


class StateView:
    """What policies see of the states of a batch: the observation of each distinct state, by its number.

    ``observe`` returns the observations [u, …] of states with these numbers [u]. An actor and a critic share a view, so
    that the distinct states of the same steps are found once.
    """

    def __init__(self, observe: Callable[[Tensor], Tensor]) -> None:
        self.observe = observe
        self._known: tuple[Tensor, Tensor] | None = None
        self._last: tuple[Tensor, Tensor | None, Distinct] | None = None

    def set(self, observe: Callable[[Tensor], Tensor]) -> None:
        """Look at the states of another level set from now on."""
        self.observe, self._known, self._last = observe, None, None

    def keep(self, state: Tensor) -> None:
        """Keep the observations of these states [n], instead of making them again for each minibatch."""
        numbers = torch.unique(state)
        self._known = numbers, self.observe(numbers)

    def forget(self) -> None:
        """Keep no observations any more."""
        self._known = self._last = None

    def distinct(self, state: Tensor, private: Tensor | None) -> Distinct:
        """Return the distinct inputs of steps with these states [n] and private bits [n, bits]."""
        if self._last is not None and self._last[0] is state and self._last[1] is private:
            return self._last[2]
        bits = 0 if private is None else private.shape[-1]
        key = state if private is None else (state << bits) | number_of(private)
        key, index = torch.unique(key, return_inverse=True)
        number = key >> bits
        if self._known is None:
            observation = self.observe(number)
        else:
            observation = self._known[1].index_select(0, torch.searchsorted(self._known[0], number))
        setting = None if private is None else settings_of(key & ((1 << bits) - 1), bits)
        found = Distinct(observation, setting, index)
        self._last = state, private, found
        return found


class Distinct(NamedTuple):
    """The distinct inputs of n steps."""

    observation: Tensor
    """[u, …]"""
    private: Tensor | None
    """[u, bits]"""
    index: Tensor
    """[n] which of them each step has"""


class Once(nn.Module):
    """Runs a network once for each distinct state of a batch.

    Many steps of a batch are taken in the same state, above all where many slots play on few levels. An environment
    therefore shows the number of its state. This module makes the observations of the distinct numbers, runs the
    network on those, and hands each row back to the steps of its state. Private bits are part of what is distinct;
    private numbers that are no bits are not, and each step then has its own row.

    With ``log_probs`` the outputs are normalised, which is quicker here than for each step.
    """

    def __init__(self, network: nn.Module, view: StateView, *, are_bits: bool = True, log_probs: bool = False) -> None:
        super().__init__()
        self.network, self.view, self.are_bits, self.log_probs = network, view, are_bits, log_probs

    def forward(self, state: Tensor, private: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        """Return the outputs [n, …] for states [n] with private bits [n, bits], and, for a critic, a context [n, F]."""
        by_step = private is not None and not self.are_bits
        observation, setting, index = self.view.distinct(state, None if by_step else private)
        if by_step:
            observation, setting = observation.index_select(0, index), private
        further = [] if context is None else [context] if by_step else [context, index]
        values = self.network(observation, setting, *further)
        if self.log_probs:
            values = values.log_softmax(-1)
        return values if by_step or context is not None else _rows(values, index)


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]``: in this form it is quick, and its gradient is the same for any number of threads."""
    if values.ndim == 1:
        return values.index_select(0, index)
    columns = values.shape[-1]
    flat = index.unsqueeze(-1) * columns + torch.arange(columns, device=index.device)
    return values.reshape(-1).index_select(0, flat.reshape(-1)).reshape(-1, columns)


class Actor(ProbabilisticActor):
    """A policy that samples actions. It keeps its last distribution, so that a loss can add the entropy to another."""

    def __init__(self, network: nn.Module, keys: Sequence[str], actions: ActionKind) -> None:
        super().__init__(
            TensorDictModule(network, list(keys), ["outputs"]),
            in_keys=["outputs"],
            out_keys=["action"],
            distribution_class=actions.distribution,
            distribution_kwargs=actions.arguments,
            return_log_prob=True,
        )
        self.select_out_keys("action", *self.log_prob_keys)
        self.dist: Any = None

    def get_dist(self, tensordict: TensorDictBase, *args: Any, **kwargs: Any) -> Any:
        self.dist = super().get_dist(tensordict, *args, **kwargs)
        return self.dist


class Value(nn.Module):
    """The values [n, 1] of a critic that sees states, then private bits if there are any, then the counts if it does."""

    def __init__(self, critic: nn.Module, has_private: bool) -> None:
        super().__init__()
        self.critic, self.has_private = critic, has_private

    def forward(self, state: Tensor, *others: Tensor) -> Tensor:
        inputs = others if self.has_private else (None, *others)
        return self.critic(state, *inputs).unsqueeze(-1)
