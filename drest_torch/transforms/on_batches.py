"""What is done with a collected batch [slots, time] once it is paid: transforms for a collector's ``postproc``."""

from __future__ import annotations

from collections.abc import Callable

from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import Transform

from drest_torch.transforms.drest_reward import DReSTReward


class LogDiscounts(Transform):
    """Shows ``drest_log_discounts`` [slots, time, k]: the log of the discount that each length would get next.

    It is for a critic alone: a policy must not tell the mini-episodes of a meta-episode apart.
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
        shown = drest.reward.shown_discount(counts, counts.sum(-1, keepdim=True), k)
        return tensordict.set("drest_log_discounts", shown)


class Advance(Transform):
    """Pays each reward at once, divided by the mean of m(l), and settles the rest at the end of the mini-episode.

    The return of a mini-episode stays the same. The return from a later step changes by a term that depends on the past
    alone, a baseline: policy gradients have the same mean, and less noise.

    With ``scaled`` the rewards themselves are divided by this mean, for rewards that are not divided by m(l): the same
    number for all lengths, which prefers none, and keeps what networks learn at a magnitude of 1.
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
