"""The networks of several agents as one module with stacked weights, which runs and trains all of them at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap


class Stacked(nn.Module):
    """The policies or critics of A agents, all of one kind.

    Inputs hold the rows of the first agent, then as many of the second, and so on. ``shared`` are the weights of
    another such module, by the parameters of its first network; those that these networks have too are theirs as well.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        shared: Mapping[nn.Parameter, nn.Parameter] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.agents = len(networks)
        self.private_bits = getattr(networks[0], "private_bits", 0)
        self._names = [name for name, _ in networks[0].named_parameters()]
        parameters = [dict(network.named_parameters()) for network in networks]
        self.weights = nn.ParameterList(
            [
                shared[parameters[0][name]]
                if parameters[0][name] in shared
                else nn.Parameter(torch.stack([of_agent[name].detach() for of_agent in parameters]))
                for name in self._names
            ]
        )
        # The list keeps the weights of the template out of this module's parameters.
        self._like = [copy.deepcopy(networks[0]).requires_grad_(False)]

    def _apply(self, fn: Any, recurse: bool = True) -> Stacked:
        super()._apply(fn, recurse)
        self._like[0]._apply(fn, recurse)
        return self

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """Return the output of each agent's network for its rows."""
        template = self._like[0]
        arguments = [None if rows is None else rows.unflatten(0, (self.agents, -1)) for rows in inputs]

        def run(weights: tuple[Tensor, ...], *arguments: Tensor | None) -> Any:
            return functional_call(template, dict(zip(self._names, weights, strict=True)), arguments)

        in_dims = (0, *(None if rows is None else 0 for rows in arguments))
        outputs: Tensor = vmap(run, in_dims=in_dims)(tuple(self.weights), *arguments)
        return outputs.flatten(0, 1)

    def agent(self, index: int) -> Any:
        """Return a copy of one agent's network with its current weights."""
        network = copy.deepcopy(self._like[0])
        with torch.no_grad():
            for (_, parameter), stacked in zip(network.named_parameters(), self.weights, strict=True):
                parameter.copy_(stacked[index])
        return network
