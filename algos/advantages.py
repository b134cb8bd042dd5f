"""Generalised advantage estimation on mini-episodes of different lengths, played side by side.

The whole reward of a mini-episode is paid at its end, so returns within it are not discounted (γ = 1 here; the paper's
γ is in the reward). The credit horizon is a choice:

* ``mini``: the return of a step is the reward of its own mini-episode, as in the paper. The counts that set the
  discount are held constant.
* ``meta``: the return extends to the end of the meta-episode, so the choice of a length is also credited with its
  effect on later discounts.
"""

from __future__ import annotations

from itertools import accumulate

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
    # With mini credit a return ends with its mini-episode, so all mini-episodes are gone through side by side.
    chain = batch.episode if credit == "mini" else batch.episode % batch.slots
    chains = batch.episodes if credit == "mini" else batch.slots
    # Value and advantage of the next step of each chain.
    next_value, next_advantage = value.new_zeros(chains), value.new_zeros(chains)
    reward = batch.step_reward()
    for here in reversed(_blocks(batch, credit)):
        chains_here, value_here = chain[here], value[here]
        delta = reward[here] + next_value[chains_here] - value_here
        advantage_here = delta + lmbda * next_advantage[chains_here]
        advantage[here] = advantage_here
        if batch.played is not None:  # a step that was not taken leaves the next step as it is
            played = batch.played[here]
            value_here = torch.where(played, value_here, next_value[chains_here])
            advantage_here = torch.where(played, advantage_here, next_advantage[chains_here])
        next_value[chains_here], next_advantage[chains_here] = value_here, advantage_here
    return advantage, advantage + value


def _blocks(batch: Batch, credit: str) -> list[slice] | list[Tensor]:
    """Return indices of the steps of each block, in the order of play within the credit horizon."""
    if credit == "mini":
        ends = list(accumulate(batch.blocks))
        return [slice(end - count, end) for end, count in zip(ends, batch.blocks, strict=True)]
    block = torch.arange(len(batch.blocks)).repeat_interleave(torch.tensor(batch.blocks)).to(batch.episode.device)
    place = batch.episode // batch.slots * len(batch.blocks) + block
    counts = place.bincount()
    return list(place.argsort(stable=True).split(counts[counts > 0].tolist()))
