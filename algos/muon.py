"""Muon for layers whose weights are repeated by symmetries.

A symmetric layer trains one block of rows; its other blocks are the same numbers in other places. Muon (Jordan et al.
2024) makes all singular values of a matrix's update about equal, so that all directions are learned at the same pace.
If it did so for the trained block alone, the directions of the whole layer would still differ: those in which the
blocks agree would be learned faster than those in which they differ. This optimiser makes the singular values of the
whole layer's update equal, and takes from it the rows of the trained block.

All matrices in between are symmetric in the same way, so their other rows follow from those of the first block. A
product is therefore computed for these rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.networks.base import RepeatedWeight, to_all_blocks

MOMENTUM = 0.95
STEPS = 5
FACTORS = (3.4445, -4.7750, 2.0315)
"""The coefficients of x, x³ and x⁵ in an iteration, which brings singular values from 0.01 to 1 to about 0.7 to 1.2."""
TINY = 1e-7


class LayerMuon(torch.optim.Optimizer):
    """Muon with Nesterov momentum on the whole matrices of repeated weights, with decoupled weight decay.

    The momentum, the learning rate and the iteration are those of `torch.optim.Muon`, here in float32.
    """

    def __init__(self, repeated: Sequence[RepeatedWeight], lr: float, weight_decay: float) -> None:
        super().__init__([layer.weight for layer in repeated], {"lr": lr, "weight_decay": weight_decay})
        self.repeated = list(repeated)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step along the gradients; a ``closure`` would compute them, and is not supported."""
        if closure is not None:
            raise TypeError("LayerMuon takes no closure; compute the gradients before the step")
        (group,) = self.param_groups
        for layer in self.repeated:
            weight, gradient = layer.weight, layer.weight.grad
            if gradient is None:
                continue
            state = self.state[weight]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(weight)
            momentum = state["momentum_buffer"].lerp_(gradient, 1 - MOMENTUM)
            update = orthogonalised(gradient.lerp(momentum, MOMENTUM), layer)
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.sub_(update, alpha=group["lr"])


def orthogonalised(update: Tensor, of: RepeatedWeight) -> Tensor:
    """Return the first rows of the whole matrix of ``update``, with all of its singular values near a common one.

    It is 1, or the root of rows / columns of a matrix with more rows than columns.
    """
    linear, cubic, quintic = FACTORS
    whole = of.whole(update)
    block = update / whole.norm().clamp_min(TINY)
    for _ in range(STEPS):
        whole = of.whole(block)
        gram = block @ whole.T
        block = linear * block + (cubic * gram + quintic * (gram @ to_all_blocks(gram, of.between))) @ whole
    rows, columns = whole.shape
    return block * max(1.0, rows / columns) ** 0.5
