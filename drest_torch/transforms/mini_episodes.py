"""The mini-episodes of a collected batch [slots, time]: where they end, and sums over their steps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor


def round_of(ended: Tensor) -> Tensor:
    """Return which mini-episode of its slot each step belongs to [slots, time], given where mini-episodes end."""
    ends = ended.long()
    return ends.cumsum(1) - ends


class MiniEpisodes(NamedTuple):
    """The mini-episodes of a batch: slots have played up to R of them, one after the other."""

    end: tuple[Tensor, ...]
    """The slots and the times at which mini-episodes end."""
    round: Tensor
    """[slots, time] which mini-episode of its slot a step belongs to"""
    coins: Tensor
    """[slots, R] γ-discounted coins"""
    length: Tensor
    """[slots, R] the index of the length; −1 where a slot has played fewer"""
    num_lengths: Tensor
    """[slots, R] k"""
    best_return: Tensor | None
    """[slots, R] m of the length"""

    def total(self, value: Tensor) -> Tensor:
        """Return the sums [slots, R] of a value [slots, time] over the steps of each mini-episode."""
        return total(value, self.round, self.length.shape[1])


def total(value: Tensor, round_: Tensor, rounds: int) -> Tensor:
    """Return the sums [slots, R] of a value [slots, time] over steps of the same round; later rounds are left out."""
    sums = value.new_zeros(len(value), rounds + 1)
    return sums.scatter_add(1, round_.clamp_max(rounds), value)[:, :rounds]


def played(batch: TensorDictBase) -> Tensor:
    """Return which steps of a collected batch [slots, time] belong to mini-episodes that ended in it."""
    ended = batch.get(("next", "mini_done")).squeeze(-1)
    return round_of(ended) < ended.sum(1, keepdim=True)


def steps_before(ended: Tensor) -> Tensor:
    """Return how many steps of its mini-episode lie before each step [slots, time], given where they end."""
    time = torch.arange(ended.shape[1], device=ended.device).expand(ended.shape)
    next_begins = (time + 1) * ended
    begins = torch.nn.functional.pad(next_begins, (1, 0))[:, :-1].cummax(1).values
    return time - begins
