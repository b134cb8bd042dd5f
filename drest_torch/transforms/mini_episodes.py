"""The mini-episodes of a collected batch [slots, time]: their ends, and sums over their steps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor


def round_of(ended: Tensor) -> Tensor:
    """Return the index of each step's mini-episode within its slot [slots, time], from the ends."""
    ends = ended.long()
    return ends.cumsum(1) - ends


class MiniEpisodes(NamedTuple):
    """The mini-episodes of a batch, up to R in each slot in sequence."""

    end: tuple[Tensor, ...]
    """The slots and the times at which mini-episodes end."""
    round: Tensor
    """[slots, time] the index of the step's mini-episode within its slot."""
    coins: Tensor
    """[slots, R] γ-discounted coins."""
    length: Tensor
    """[slots, R] the index of the length; −1 for padding."""
    num_lengths: Tensor
    """[slots, R] k"""
    best_return: Tensor | None
    """[slots, R] m of the length."""

    def total(self, value: Tensor) -> Tensor:
        """Return the sums [slots, R] of a value [slots, time] over the steps of each mini-episode."""
        return total(value, self.round, self.length.shape[1])


def total(value: Tensor, round_: Tensor, rounds: int) -> Tensor:
    """Return the sums [slots, R] of a value [slots, time] over the steps of each round, without later rounds."""
    sums = value.new_zeros(len(value), rounds + 1)
    return sums.scatter_add(1, round_.clamp_max(rounds), value)[:, :rounds]


def played(batch: TensorDictBase) -> Tensor:
    """Return a mask of the steps of a batch [slots, time] in finished mini-episodes."""
    ended = batch.get(("next", "mini_done")).squeeze(-1)
    return round_of(ended) < ended.sum(1, keepdim=True)


def steps_before(ended: Tensor) -> Tensor:
    """Return the number of earlier steps in the mini-episode of each step [slots, time], from the ends."""
    time = torch.arange(ended.shape[1], device=ended.device).expand(ended.shape)
    next_begins = (time + 1) * ended
    begins = torch.nn.functional.pad(next_begins, (1, 0))[:, :-1].cummax(1).values
    return time - begins
