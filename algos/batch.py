"""What an algorithm learns from: whole mini-episodes, stored by what is distinct in them.

N steps of M mini-episodes. Many steps are taken in the same state, above all where a group of slots plays
the same level, so observations are stored once for each of the U distinct inputs of the policy and the
networks run on those alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Steps stand in the order they were played: tick by tick, round by round (``blocks``)."""

    observation: Tensor
    """[U, *shape] distinct observations"""
    noise: Tensor | None
    """[U, n] the policy's private noise there"""
    seen: Tensor
    """[N] index among the distinct observations"""
    action: Tensor
    """[N]"""
    log_prob: Tensor
    """[N] of the action when it was taken"""
    episode: Tensor
    """[N] the step's mini-episode"""
    ended: Tensor
    """[N] whether the mini-episode ended with it"""
    blocks: list[int]
    """number of steps of each block; the steps of one block belong to different slots"""
    slots: int
    """mini-episode m was played by slot m % slots in round m // slots"""
    group_size: int
    """so many slots beside each other play one level; minibatches are made of whole groups"""
    reward: Tensor
    """[M] paid for the mini-episode, at its end"""
    context: Tensor
    """[M, F] what is known of the meta-episode when the mini-episode starts; for the critic alone"""

    @property
    def steps(self) -> int:
        return len(self.action)

    @property
    def episodes(self) -> int:
        return len(self.reward)

    @property
    def num_groups(self) -> int:
        return self.slots // self.group_size

    def step_group(self) -> Tensor:
        """[N] the group of slots that each step belongs to."""
        return self.episode % self.slots // self.group_size

    def step_reward(self) -> Tensor:
        """[N] rewards where they are paid."""
        return self.reward[self.episode] * self.ended


@dataclass(frozen=True)
class ExactBatch:
    """Levels whose outcome is a function of the action probabilities at their N reachable states."""

    states: int
    """N"""
    explore: Callable[[Callable[[Tensor], Tensor], float], tuple[Tensor, Tensor]]
    """a policy (observations → logits) and a probability → indices [V] of the states that the policy comes to with
    more than this probability, and its logits there [V, A]"""
    observe: Callable[[Tensor], Tensor]
    """indices of states [n] → their observations [n, *shape]"""
    outcome: Callable[[Tensor], tuple[Tensor, Tensor]]
    """action probabilities [N, A] → P(L = l) and E[C | L = l], each [B, K]"""
    visits: Callable[[Tensor], Tensor]
    """action probabilities [N, A] → how likely a mini-episode is to come to each state [N]"""
    best_return: Tensor
    """[B, K] m(l)"""
    num_lengths: Tensor
    """[B] k"""


def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one action a row: the largest logit after adding Gumbel noise."""
    u = torch.rand(logits.shape, generator=generator, device=logits.device)
    return (logits - (-u.clamp_min(1e-20).log()).log()).argmax(-1)
