"""Generalised advantage estimation on mini-episodes of different lengths, played side by side.

The whole reward of a mini-episode is paid at its end, so returns within it are not discounted (γ = 1 here; the paper's
γ is in the reward). The credit horizon is a choice:

* ``mini``: the return of a step is the reward of its own mini-episode, as in the paper. The counts that set the
  discount are held constant.
* ``meta``: the return extends to the end of the meta-episode, so the choice of a length is also credited with its
  effect on later discounts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.algos.batch import Batch

CREDITS = ("mini", "meta")


def estimate(batch: Batch, value: Tensor, lmbda: float, credit: str = "mini") -> tuple[Tensor, Tensor]:
    """Return advantages and value targets [N], given the critic's value of each step's state [N].

    With λ = 1 and values of 0 the advantage is the reward-to-go. The results at steps that were not taken have no
    meaning.
    """
    if credit not in CREDITS:
        raise ValueError(f"no credit horizon '{credit}'; expected one of {', '.join(CREDITS)}")
    advantage = torch.empty_like(value)
    # Value and advantage of the next step of each slot, which comes later in the batch.
    next_value = value.new_zeros(batch.slots)
    next_advantage = value.new_zeros(batch.slots)
    reward = batch.step_reward()
    slot = batch.episode % batch.slots
    last = len(batch)
    for count in reversed(batch.blocks):
        here = slice(last - count, last)
        slots = slot[here]
        after_value, after_advantage = next_value[slots], next_advantage[slots]
        if credit == "mini":
            continues = ~batch.ended[here]
            after_value, after_advantage = after_value * continues, after_advantage * continues
        delta = reward[here] + after_value - value[here]
        advantage[here] = delta + lmbda * after_advantage
        if batch.played is None:
            next_value[slots], next_advantage[slots] = value[here], advantage[here]
        else:  # a step that was not taken leaves the slot's next step as it is
            played = batch.played[here]
            next_value[slots] = torch.where(played, value[here], next_value[slots])
            next_advantage[slots] = torch.where(played, advantage[here], next_advantage[slots])
        last -= count
    return advantage, advantage + value
