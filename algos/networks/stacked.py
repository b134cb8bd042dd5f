"""Networks of several agents as one: their weights stacked, so that all are run and trained at once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap


class Stacked(nn.Module):
    """A policies or critics of one kind. Inputs are rows of the first agent, then as many of the second, and so on."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.agents = len(networks)
        self.noise = getattr(networks[0], "noise", 0)
        self._names = [name for name, _ in networks[0].named_parameters()]
        of_each = [dict(network.named_parameters()) for network in networks]
        self.weights = nn.ParameterList(
            [nn.Parameter(torch.stack([each[name].detach() for each in of_each])) for name in self._names]
        )
        # In a list, so that its own weights are none of this module's.
        self._like = [copy.deepcopy(networks[0]).requires_grad_(False)]

    def _apply(self, fn: Any, recurse: bool = True) -> Stacked:
        super()._apply(fn, recurse)
        self._like[0]._apply(fn, recurse)
        return self

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """What each agent's network says of its rows."""
        like = self._like[0]
        given = [None if each is None else each.unflatten(0, (self.agents, -1)) for each in inputs]

        def one(weights: tuple[Tensor, ...], *given: Tensor | None) -> Any:
            return functional_call(like, dict(zip(self._names, weights, strict=True)), given)

        in_dims = (0, *(None if each is None else 0 for each in given))
        found: Tensor = vmap(one, in_dims=in_dims)(tuple(self.weights), *given)
        return found.flatten(0, 1)

    def agent(self, index: int) -> Any:
        """One agent's network by itself, with its weights as they are now."""
        network = copy.deepcopy(self._like[0])
        with torch.no_grad():
            for (_, mine), all_of_them in zip(network.named_parameters(), self.weights, strict=True):
                mine.copy_(all_of_them[index])
        return network
