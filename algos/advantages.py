"""Advantages in mini-episodes of different lengths, played side by side.

`estimate` is generalised advantage estimation, with a critic's values. `compare` needs many slots in the same state: it
compares the returns of those that took the same action there with the returns of the others.

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
from drest_torch.envs.actions import NUM_ACTIONS

CREDITS = ("mini", "meta")
ADVANTAGES = ("gae", "peers")


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


def compare(batch: Batch, value: Tensor, visits: float, credit: str = "mini") -> tuple[Tensor, Tensor]:
    """Return advantages and value targets [N] from the slots that were in the same state at the same time.

    The advantage of a step is the mean return of all slots that took its action in its state, less the mean return of
    the other slots there. Neither depends on the step's action otherwise, so the gradient keeps its mean. The critic's
    value [N] counts as the return of so many ``visits`` more. A step in a state where no other slot was has its own
    return less the critic's value.
    """
    returns, _ = estimate(batch, torch.zeros_like(value), 1.0, credit)
    weight = torch.ones_like(returns) if batch.played is None else batch.played.to(returns.dtype)

    def sums(group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
        """Return for each step the sum of the returns of its group, and the number of its steps."""
        total = returns.new_zeros(groups).index_add(0, group, returns * weight)
        return total[group], returns.new_zeros(groups).index_add(0, group, weight)[group]

    state = batch.state
    there, number = sums(state, batch.num_states)
    others = number - 1
    baseline = torch.where(others > 0, (there - returns + visits * value) / (others + visits).clamp_min(1e-8), value)
    same, alike = sums(state * NUM_ACTIONS + batch.action, batch.num_states * NUM_ACTIONS)
    target = same / alike.clamp_min(1)
    return target - baseline, target
