"""Transforms for a collector's ``postproc``, after the payment of a collected batch [slots, time]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import Transform

from drest_torch.transforms.drest_reward import DReSTReward


class Playing(Protocol):
    """An environment whose last slots may wait for a whole batch."""

    playing: int | None
    """The number of slots that play; None: all."""


class PlayingSlots(Transform):
    """A transform that removes the slots of a batch that do not play."""

    def __init__(self, slots: Playing) -> None:
        super().__init__()
        self._slots = [slots]  # in a list, because an environment is no part of the transform

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        (slots,) = self._slots
        if slots.playing in (None, len(tensordict)):
            return tensordict
        return tensordict[: slots.playing]


class LogDiscounts(Transform):
    """A transform that adds ``drest_log_discounts`` [slots, time, k]: the log of the next discount of each length.

    Only a critic may use it, because the policy must not tell the mini-episodes of a meta-episode apart.
    """

    def __init__(self, drest: DReSTReward) -> None:
        super().__init__()
        self.drest = drest

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        drest = self.drest
        counts = tensordict.get("drest_counts")
        k: Tensor | int = drest.num_lengths
        if drest.num_lengths_key is not None:
            k = tensordict.get(drest.num_lengths_key)
        log_discounts = drest.reward.critic_discount(counts, counts.sum(-1, keepdim=True), k)
        return tensordict.set("drest_log_discounts", log_discounts)


class Advance(Transform):
    """A transform that pays part of the reward in advance: each coin at once, divided by the mean of m(l).

    The last step of the mini-episode pays the difference, so the return of a mini-episode stays the same. The return
    from a later step changes by a term that depends only on the past, a baseline: policy gradients keep their mean, and
    have less variance.

    With ``scaled`` the rewards themselves are divided by this mean, if they are not divided by m(l). The divisor is the
    same for all lengths, so it prefers none, and the returns have a magnitude of about 1.
    """

    def __init__(self, drest: DReSTReward, mean_best: Callable[[], float], *, scaled: bool) -> None:
        super().__init__()
        self.drest, self.mean_best, self.scaled = drest, mean_best, scaled

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        weight = 1 / self.mean_best()
        after = tensordict.get("next")
        episodes = self.drest.mini_episodes(tensordict)
        advance = after.get("reward_raw").squeeze(-1) * weight  # [slots, time]
        advanced = episodes.total(advance)  # [slots, rounds]
        slot, time = episodes.end
        paid = after.get("reward").squeeze(-1)[slot, time]
        if self.scaled:
            paid = paid * weight
        advance[slot, time] += paid - advanced[slot, episodes.round[slot, time]]
        after.set("reward", advance.unsqueeze(-1))
        return tensordict
