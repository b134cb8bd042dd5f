"""The policy of the tabular algorithm, `drest_torch.algos.tabular`; a configuration cannot choose it as a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TablePolicy(nn.Module):
    """A table of action logits with a row for each `VectorObservation` [x, y, c…, b…].

    The index of a row consists of the cell, counted row by row, and of a bit for each coin and button: 1 once the
    object is taken.
    """

    private_bits = 0
    reads_maps = False
    logits: Tensor

    def __init__(self, height: int, width: int, num_objects: int, num_actions: int = 4) -> None:
        super().__init__()
        self.width, self.num_objects = width, num_objects
        rows = height * width << num_objects
        self.register_buffer("logits", torch.zeros(rows, num_actions, dtype=torch.float64))
        self._bits = torch.arange(num_objects)

    def forward(self, observation: Tensor, private_bits: Tensor | None = None) -> Tensor:
        return self.logits[self.row(observation)]

    def row(self, observation: Tensor) -> Tensor:
        """Return the row of each observation [n]."""
        numbers = observation.long()
        taken = ((1 - numbers[:, 2:]) << self._bits).sum(-1)
        return (numbers[:, 1] * self.width + numbers[:, 0] << self.num_objects) | taken
