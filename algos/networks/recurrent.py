"""A recurrent network: an MLP encodes each step, a GRU carries a memory through a meta-episode, a layer outputs logits.

The memory is empty at the start of a meta-episode, when the environment is reset; the soft reset of a mini-episode
preserves it. The steps of a slot that waits for other slots are not trained on, and a reset follows them.
"""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.modules import GRUModule, set_recurrent_mode

from drest_torch.algos.networks.base import Flat, NetworkSize, Requirements, Signature, hidden, linear

REQUIRES = Requirements(min_depth=1, remembers=True)


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    """Build the network: an encoder of ``size.depth`` hidden layers, and a memory, all of ``size.width`` units."""
    return Recurrent(signature, size)


class Recurrent(Flat):
    """A network that encodes the inputs of each step (`forward`) and updates its memory with them (`recall`)."""

    def __init__(self, signature: Signature, size: NetworkSize) -> None:
        super().__init__(signature, nn.Sequential(*hidden(signature.inputs, size)))
        self.memory = size.width
        self.gru = GRUModule(
            size.width, size.width, in_keys=["read", "memory", "is_init"], out_keys=["hidden", ("next", "memory")]
        )
        self.head = linear(size.width, signature.outputs, signature.last_gain)

    def recall(self, read: Tensor, is_init: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the outputs [n, O] for encodings [n, width], and the memory after them.

        ``memory`` [n, 1, width] belongs to n slots before one step. Without it the rows are concatenated sequences of
        steps, whose first steps ``is_init`` [n, 1] marks.
        """
        if memory is not None:
            return self._one_step(read, is_init, memory)
        steps = TensorDict({"read": read, "is_init": is_init}, [len(read)])
        with set_recurrent_mode(True):
            steps = self.gru(steps)
        return self.head(steps["hidden"]), steps["next", "memory"]

    def _one_step(self, read: Tensor, is_init: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the result of `GRUModule` for one step of each slot, bit for bit but without its overhead."""
        gru = self.gru.gru
        before = torch.where(is_init, 0.0, memory.squeeze(1))
        weights = (gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)
        after = torch.gru_cell(read, before, *weights)
        return self.head(after), after.unsqueeze(1)
