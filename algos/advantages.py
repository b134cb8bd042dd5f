"""Generalised advantage estimation on mini-episodes of uneven length, played side by side.

A mini-episode is rewarded at its end for all of it, so nothing is discounted within it (γ = 1 here; the
paper's γ is in the reward). The credit horizon is a choice:

* ``mini``: the return of a step is its own mini-episode's reward, as in the paper. The counts that set the
  discount are taken as given.
* ``meta``: the return goes on to the end of the meta-episode, so a choice of length is also charged with
  what it does to later discounts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from algos.batch import Batch

CREDITS = ("mini", "meta")


def estimate(batch: Batch, value: Tensor, lmbda: float, credit: str = "mini") -> tuple[Tensor, Tensor]:
    """Advantages and value targets [N], given the critic's value of each step's state [N].

    With λ = 1 and values 0 the advantage is the reward-to-go. What stands at steps that were not taken means nothing.
    """
    if credit not in CREDITS:
        raise ValueError(f"no credit horizon '{credit}'; expected one of {', '.join(CREDITS)}")
    advantage = torch.empty_like(value)
    # Of the step that each slot takes next, further on in the batch.
    next_value = value.new_zeros(batch.slots)
    next_advantage = value.new_zeros(batch.slots)
    reward = batch.step_reward()
    slot = batch.episode % batch.slots
    last = len(batch)
    for count in reversed(batch.blocks):
        here = slice(last - count, last)
        who = slot[here]
        after_value, after_advantage = next_value[who], next_advantage[who]
        if credit == "mini":
            goes_on = ~batch.ended[here]
            after_value, after_advantage = after_value * goes_on, after_advantage * goes_on
        delta = reward[here] + after_value - value[here]
        advantage[here] = delta + lmbda * after_advantage
        if batch.played is None:
            next_value[who], next_advantage[who] = value[here], advantage[here]
        else:  # the slot's next step is further on
            played = batch.played[here]
            next_value[who] = torch.where(played, value[here], next_value[who])
            next_advantage[who] = torch.where(played, advantage[here], next_advantage[who])
        last -= count
    return advantage, advantage + value
