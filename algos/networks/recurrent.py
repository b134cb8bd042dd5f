"""A recurrent network: an MLP reads each step, a GRU remembers the steps of a meta-episode, and a layer acts on both.

The memory is empty at the start of a meta-episode, when the environment is reset. The soft reset of a mini-episode
leaves it as it is. Nothing is learned from what a slot does while it waits for others, and a reset follows.
"""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.modules import GRUModule, set_recurrent_mode

from drest_torch.algos.networks.base import Flat, NetworkSize, Requirements, Signature, hidden, linear

REQUIRES = Requirements(min_depth=1, remembers=True)


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    """Build the network: ``size.depth`` hidden layers that read, and a memory, all of ``size.width`` units."""
    return Recurrent(signature, size)


class Recurrent(Flat):
    """A network that reads the inputs of each step (`forward`), and goes on from its memory with them (`recall`)."""

    def __init__(self, signature: Signature, size: NetworkSize) -> None:
        super().__init__(signature, nn.Sequential(*hidden(signature.inputs, size)))
        self.memory = size.width
        self.gru = GRUModule(
            size.width, size.width, in_keys=["read", "memory", "is_init"], out_keys=["known", ("next", "memory")]
        )
        self.head = linear(size.width, signature.outputs, signature.last_gain)

    def recall(self, read: Tensor, is_init: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the outputs [n, O] for what was read [n, width], and what is remembered after it.

        ``memory`` [n, 1, width] is that of n slots before one step. Without it the rows are whole sequences of steps,
        one after the other; ``is_init`` [n, 1] says where each begins.
        """
        if memory is not None:
            return self._one_step(read, is_init, memory)
        steps = TensorDict({"read": read, "is_init": is_init}, [len(read)])
        with set_recurrent_mode(True):
            steps = self.gru(steps)
        return self.head(steps["known"]), steps["next", "memory"]

    def _one_step(self, read: Tensor, is_init: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `GRUModule` does for one step of each slot, to the last bit but without its overhead."""
        gru = self.gru.gru
        before = torch.where(is_init, 0.0, memory.squeeze(1))
        weights = (gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)
        known = torch.gru_cell(read, before, *weights)
        return self.head(known), known.unsqueeze(1)
