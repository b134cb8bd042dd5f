"""A reference for what pays: the counts of a batch of slots, kept one mini-episode after the other."""

import torch
from torch import Tensor

from drest_torch.reward import Reward, alike_in_group


class Paymaster:
    """The meta-episodes of a batch of slots: the counts of their lengths, from which mini-episodes are paid.

    With sequential counting a slot plays one mini-episode after the other. With averaged counting the slots of a group
    play one mini-episode each, side by side on one level. There are S slots and K columns for lengths. Methods act on
    n slots: those in ``slot`` [n], or all.
    """

    def __init__(
        self, reward: Reward, slots: int, columns: int, *, group: int = 1, device: torch.device | str = "cpu"
    ) -> None:
        self.in_order = reward.counting == "sequential"
        self.reward, self.group = reward, group
        self.counts = torch.zeros(slots, columns, device=device)
        """[S, K] N, how often each length was played."""
        self._all_slots = torch.arange(slots, device=device)
        self._discounts = None if self.in_order else reward.group_discounts(columns, group).to(device)

    def begin(self, slot: Tensor | None = None) -> None:
        """Begin new meta-episodes."""
        self.counts.index_fill_(0, self._all_slots if slot is None else slot, 0)

    def played(self, slot: Tensor | None = None) -> Tensor:
        """Return i − 1 [n], the number of mini-episodes so far."""
        return self.counts[self._all_slots if slot is None else slot].sum(-1)

    def complete(self, slot: Tensor | None = None) -> Tensor:
        """Return whether [n] all E mini-episodes of the meta-episode have been played."""
        return self.played(slot) >= self.reward.episodes_per_meta

    def pay(
        self, coins: Tensor, column: Tensor, num_lengths: Tensor, best_return: Tensor, slot: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pay for one mini-episode of each slot and count it; return the rewards [n] and the discounts [n].

        ``column`` is the index of its length, ``num_lengths`` the k of its level, ``best_return`` the m of its length.
        """
        slot = self._all_slots if slot is None else slot
        if self.in_order:
            discount = self.reward.discount(self.counts[slot, column], self.played(slot), num_lengths)
        else:
            discount = self._group_discount(column, num_lengths)
        self.counts[slot, column] += 1
        return self.reward.pay(coins, discount, best_return), discount

    def _group_discount(self, column: Tensor, num_lengths: Tensor) -> Tensor:
        assert self._discounts is not None
        return self._discounts[num_lengths, alike_in_group(column, self.counts.shape[1], self.group) - 1]
