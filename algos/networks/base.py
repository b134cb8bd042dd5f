"""The arguments of network constructors, and the layers that networks share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.regularization import NORMS, UnitDropout

Shape = tuple[int, ...]
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU, "gelu": nn.GELU}

HEAD_WIDTH, HEAD_DEPTH = 128, 2
"""The size of the heads of networks that read maps, before it was configurable."""


@dataclass(frozen=True)
class NetworkSize:
    """The kind and size of a network; each kind defines its own meaning of width and depth."""

    width: int = 256
    depth: int = 3
    activation: str = "relu"
    network: str = "mlp"
    """A name in `drest_torch.algos.networks.NETWORKS`."""
    norm: str | None = None
    """A name in `drest_torch.algos.networks.regularization.NORMS`; None: hidden layers are not normalised."""
    dropout: float = 0.0
    """The share of hidden units that an update drops."""
    head_width: int = HEAD_WIDTH
    """Units of each hidden layer of the head: the MLP that reads the encoding at the agent's cell."""
    head_depth: int = HEAD_DEPTH
    """Hidden layers of the head."""

    def head(self) -> NetworkSize:
        """Return the size of the head."""
        return replace(self, width=self.head_width, depth=self.head_depth)

    def new_activation(self) -> nn.Module:
        return ACTIVATIONS[self.activation]()

    def after_linear(self, units: int, blocks: int = 1) -> list[nn.Module]:
        """Return the rest of a hidden layer: a norm, the activation, and dropout, for ``blocks`` that share them."""
        modules = [self.new_activation()]
        if self.norm is not None:
            modules.insert(0, NORMS[self.norm](units, blocks))
        if self.dropout:
            modules.append(UnitDropout(self.dropout, units, blocks))
        return modules


@dataclass(frozen=True)
class MapLayout:
    """The layout of observations [P, H, W]: the planes, and the effect of symmetries on them."""

    planes: tuple[str, ...]
    """The name of each plane: walls, coin values, delays, the agent, the time left, and others."""
    rotated: Tensor
    """[|G|, P] permutations: element g makes plane p from plane ``rotated[g, p]``, whose cells it permutes as well"""
    time_steps: int
    """The number of values of the time left that the network distinguishes."""
    delay_unit: float
    """The divisor that scales delays to about 1."""


@dataclass(frozen=True)
class Symmetries:
    """A group G of rotations and reflections, as permutations of the inputs and of the outputs of a network."""

    inputs: Tensor
    """[|G|, F] permutations: element g maps an input x to ``x[..., inputs[g]]``; all elements are distinct"""
    outputs: Tensor
    """[|G|, O] permutations: element g maps output o to output ``outputs[g, o]``; some element maps any output to any
    other"""
    layout: MapLayout | None = None
    """The layout of the observations, for networks that read maps; ``inputs`` then permute three by three cells"""

    def of_a_value(self) -> Symmetries:
        """Return the same inputs with a single invariant output."""
        return replace(self, outputs=torch.zeros_like(self.outputs[:, :1]))

    def between(self) -> Tensor:
        """Return the indices [|G|, |G|] of the elements g⁻¹h, which map x to ``x[inputs[h]][inputs[g⁻¹]]``."""
        inverse = self.inputs.argsort(-1)
        composed = torch.stack([self.inputs[:, places] for places in inverse])
        return (composed.unsqueeze(2) == self.inputs).all(-1).int().argmax(-1)


@dataclass(frozen=True)
class Signature:
    """The inputs of a network, observations [n, *shape] and further numbers [n, further], and its outputs [n, outputs].

    The further numbers are the private bits and, for a critic, the features of the meta-episode.
    """

    shape: Sequence[int]
    scale: Tensor
    """Factors that broadcast to ``shape`` and scale observations to a magnitude of about 1"""
    further: int
    outputs: int
    last_gain: float
    """The gain of the last layer's weights: small for a policy, so that its actions are about equally likely at
    first"""
    symmetries: Symmetries | None = None
    """The symmetries that the network requires, if any"""
    entries: Sequence[Shape] = ()
    """The shapes of the parts that an observation concatenates, if it is a row of several"""

    @property
    def inputs(self) -> int:
        """The size of an observation together with the further numbers."""
        return math.prod(self.shape) + self.further


@dataclass(frozen=True)
class Requirements:
    """The requirements of a network on the configuration; the defaults allow everything."""

    observations: tuple[str, ...] = ()
    """The observations that the network supports, the default first; empty: any"""
    symmetries: Literal["observation", "cells"] | None = None
    """The symmetries of the network: of the whole observation, whose maps are then padded to squares, or of three by
    three cells"""
    width_multiple: int = 1
    min_depth: int = 0
    reads_maps: bool = False
    """True if the network encodes a map once for all of its states, so that evaluating all states costs little more.
    Such a network supports maps of any size."""
    remembers: bool = False
    """True if actions depend on earlier steps, so that the policy can only be evaluated by sampling."""


def requirements(network: str) -> Requirements:
    """Return the requirements of a network on the configuration."""
    required: Requirements = getattr(NETWORKS[network], "REQUIRES", Requirements())
    return required


class Flat(nn.Module):
    """A network whose ``body`` takes one row per state: the scaled observation, then the further numbers."""

    scale: Tensor
    body: Any

    def __init__(self, signature: Signature, body: nn.Module) -> None:
        super().__init__()
        scale = signature.scale.expand(*signature.shape).reshape(-1).clone()
        self.register_buffer("scale", scale, persistent=False)
        self.is_scaled = bool((scale != 1).any())
        self.rounds_inputs = not self.is_scaled
        self.body = body
        self.begins_linear = isinstance(body, nn.Sequential) and isinstance(body[0], nn.Linear)

    def _inputs(self, observation: Tensor, further: Tensor | None) -> Tensor:
        inputs = observation.flatten(1)
        inputs = inputs * self.scale if self.is_scaled else inputs
        return inputs if further is None else torch.cat((inputs, further), dim=-1)

    def forward(self, observation: Tensor, further: Tensor | None = None) -> Tensor:
        return self.body(self._inputs(observation, further))

    def at_steps(self, observation: Tensor, further: Tensor | None, context: Tensor, index: Tensor) -> Tensor:
        """Return the outputs for steps [n] that share observations [U]; ``index`` [n] is the observation of each step.

        The first further numbers, ``further`` [U, F], belong to observations; the last, ``context`` [n, F], to steps.
        The body begins with a linear layer, whose products with shared inputs are computed once.
        """
        shared = self._inputs(observation, further)
        first = self.body[0]
        shared_weight, context_weight = first.weight.split((shared.shape[1], context.shape[1]), dim=-1)
        hidden = nn.functional.linear(shared, shared_weight, first.bias).index_select(0, index)
        return self.body[1:](hidden.addmm(context, context_weight.T))


def rows_of(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]``, fast and with a gradient that is the same for any number of threads."""
    if values.ndim == 1:
        return values.index_select(0, index)
    columns = values.shape[-1]
    flat = index.unsqueeze(-1) * columns + torch.arange(columns, device=index.device)
    return values.reshape(-1).index_select(0, flat.reshape(-1)).reshape(-1, columns)


def columns_of(weight: Tensor, index: Tensor) -> Tensor:
    """Return ``weight[:, index]`` with a deterministic gradient.

    The gradient of the indexing in brackets lets threads add to one number in any order.
    """
    return weight.index_select(1, index.reshape(-1)).unflatten(1, index.shape)


def hidden(inputs: int, size: NetworkSize) -> list[nn.Module]:
    """Return ``size.depth`` layers of ``size.width`` units, each with its norm, activation and dropout."""
    layers: list[nn.Module] = []
    for _ in range(size.depth):
        layers += [linear(inputs, size.width, 2**0.5), *size.after_linear(size.width)]
        inputs = size.width
    return layers


def perceptron(inputs: int, size: NetworkSize, signature: Signature) -> nn.Sequential:
    """Return hidden layers, followed by a linear layer to the outputs of a network."""
    last = size.width if size.depth else inputs
    return nn.Sequential(*hidden(inputs, size), linear(last, signature.outputs, signature.last_gain))


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """Return a linear layer with orthogonal weights and biases of 0."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


@dataclass(frozen=True)
class RepeatedWeight:
    """A weight [units, inputs] that symmetries repeat: the first block of rows of a matrix [|G| · units, inputs]."""

    weight: nn.Parameter
    whole: Callable[[Tensor], Tensor]
    """The whole matrix for a block like the weight"""
    between: Tensor
    """The symmetries of the rows (`Symmetries.between`)"""


class CachedWeights(nn.Module):
    """A network that builds the weights of its products from fewer parameters, and caches the built weights.

    The cache is used within `drest_torch.algos.networks.policy.weights_unchanged`, where parameters are fixed.
    """

    cache: Any = None
    """The cached weights; () before their first use within `weights_unchanged`; None outside of it."""

    def keep(self) -> None:
        """Start caching."""
        self.cache = ()

    def forget(self) -> None:
        """Stop caching, and delete the cache."""
        self.cache = None

    def build(self) -> Any:
        """Return the weights of the products."""
        raise NotImplementedError

    def repeated(self) -> Iterator[RepeatedWeight]:
        """Yield the weights of layers that symmetries repeat; none by default."""
        yield from ()

    def built(self) -> Any:
        """Return the weights of the products, cached ones if gradients are off."""
        if self.cache is None or torch.is_grad_enabled():
            return self.build()
        if not self.cache:
            self.cache = self.build()
        return self.cache


def repeated_weights(network: nn.Module) -> Iterator[RepeatedWeight]:
    """Yield the weights of a network's layers that symmetries repeat."""
    for part in network.modules():
        if isinstance(part, CachedWeights):
            yield from part.repeated()


class SymmetricMLP(CachedWeights):
    """An equivariant MLP from inputs [n, F] to outputs [n, O]; symmetries do not change the last ``further`` inputs.

    If its input is rotated or reflected, its output is rotated or reflected in the same way. A hidden layer has a block
    of units for each element g of the group, and the block of g sees the input transformed by g⁻¹. The weights from
    block h to block g depend on g⁻¹h alone (Cohen and Welling 2016). A layer therefore costs as much as in an MLP of
    the same width, and has |G| times fewer parameters.
    """

    inputs: Tensor
    between: Tensor
    towards: Tensor

    def __init__(self, symmetries: Symmetries, further: int, size: NetworkSize, *, last_gain: float) -> None:
        super().__init__()
        order, permuted = symmetries.inputs.shape
        same = torch.arange(permuted, permuted + further).expand(order, -1).to(symmetries.inputs)
        outputs = symmetries.outputs
        self.register_buffer("inputs", torch.cat((symmetries.inputs, same), dim=-1), persistent=False)
        self.register_buffer("between", symmetries.between(), persistent=False)
        # An output is the mean over the blocks of the elements that map the first output to it.
        towards = nn.functional.one_hot(outputs[:, 0], outputs.shape[1]).float().T
        self.register_buffer("towards", towards / towards.sum(-1, keepdim=True), persistent=False)
        units, depth = size.width // order, size.depth
        self.after = nn.ModuleList([nn.Sequential(*size.after_linear(units, order)) for _ in range(depth)])
        self.first = nn.Parameter(orthogonal(units, permuted + further, 2**0.5))
        # The weights from all blocks to the block of the identity; the others follow from them.
        self.hidden = nn.ParameterList(
            [nn.Parameter(orthogonal(units, order * units, 2**0.5)) for _ in range(depth - 1)]
        )
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(units)) for _ in range(depth)])
        self.last = nn.Parameter(orthogonal(1, order * units, last_gain))
        self.last_bias = nn.Parameter(torch.zeros(1))

    def build(self) -> list[tuple[Tensor, Tensor]]:
        """Return the weights and biases of every layer."""
        order = len(self.between)
        first = self._all_first(self.first)
        hidden = [to_all_blocks(weight, self.between) for weight in self.hidden]
        last = self.towards @ to_all_blocks(self.last, self.between)
        biases = [*(bias.repeat(order) for bias in self.biases), self.last_bias.expand(len(last))]
        return list(zip([first, *hidden, last], biases, strict=True))

    def repeated(self) -> Iterator[RepeatedWeight]:
        yield RepeatedWeight(self.first, self._all_first, self.between)
        for weight in self.hidden:
            yield RepeatedWeight(weight, partial(to_all_blocks, between=self.between), self.between)

    def _all_first(self, weight: Tensor) -> Tensor:
        """Expand the first layer's weights of the identity's block to the weights of all blocks."""
        return columns_of(weight, self.inputs).movedim(1, 0).flatten(0, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        *hidden, last = self.built()
        for (weight, bias), after in zip(hidden, self.after, strict=True):
            inputs = after(nn.functional.linear(inputs, weight, bias))
        return nn.functional.linear(inputs, *last)


def to_all_blocks(weight: Tensor, between: Tensor) -> Tensor:
    """Expand the weights of the identity's block [out, |G| · in] to the weights of all blocks [|G| · out, |G| · in]."""
    blocks = weight.unflatten(-1, (len(between), -1))
    return columns_of(blocks, between).movedim(1, 0).flatten(2).flatten(0, 1)


def orthogonal(outputs: int, inputs: int, gain: float) -> Tensor:
    """Return a random orthogonal matrix [outputs, inputs], times ``gain``."""
    return nn.init.orthogonal_(torch.empty(outputs, inputs), gain)
