"""DReST over sets of lengths: POSL restricts preferences to pairs of lotteries with the same possible lengths.

In a level with luck, lotteries with the same possible lengths form a group g. The value is Σ_g P(g) · F(g) · D(P(g)).
This is DReST with groups in place of lengths; F(g), in place of the share of m(l), is the mean over the group's lengths
of E[C | L = l, g] / m(l, g). If all lotteries have the same lengths, the value is Neutrality+. Levels without luck use
the return of the reward. Mini-episodes that enter no lottery, or more than one, are ignored, so every coin of a level
with luck should lie in a lottery.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.objectives import base, drest
from drest_torch.metrics import share_of_best


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of DReST over sets of lengths."""

    given_bits: bool = False
    """True to apply the objective under each setting of the private bits, so that an agent pays nothing even once it
    knows its bits."""


class Objective(base.Objective):
    """DReST over sets of lengths on levels with luck, and over lengths on the others."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        over_lengths = drest.Objective(self.config).value(outcome)
        if not bool(outcome.by_luck.any()):
            return over_lengths
        entered, chance, coins = outcome.by_lottery()
        if not self.config.given_bits:
            entered = entered.mean(0, keepdim=True)
        over_sets = torch.stack([over_supports(outcome, setting, chance, coins) for setting in entered]).mean(0)
        return torch.where(outcome.by_luck, over_sets, over_lengths)


def over_supports(outcome: base.PolicyOutcome, entered: Tensor, chance: Tensor, coins: Tensor) -> Tensor:
    """Return the value [B] of levels whose coins lie in lotteries.

    The probability of entering each lottery [C, B], and its P(L = l) and E[C | L = l] [C, B, K], come from
    `PolicyOutcome.by_lottery`.
    """
    chance, coins = chance.to(entered.dtype), coins.to(entered.dtype)
    possible, exists = chance > 0, chance.sum(-1) > 0
    same_lengths = (possible.unsqueeze(0) == possible.unsqueeze(1)).all(-1)  # [C, C, B]
    in_group = same_lengths & exists.unsqueeze(0) & exists.unsqueeze(1)
    best = torch.where(in_group.unsqueeze(-1), coins.unsqueeze(0), -torch.inf).amax(1)
    best = torch.where(best.isfinite(), best, 0)
    members = in_group.to(entered.dtype)
    probability = torch.einsum("cdb,db,dbk->cbk", members, entered, chance)  # of the lottery's group
    gained = torch.einsum("cdb,db,dbk->cbk", members, entered, chance * coins)
    gained = gained / torch.where(probability > 0, probability, 1)
    share = share_of_best(gained, best).sum(-1) / possible.sum(-1).clamp_min(1)
    group_probability = torch.einsum("cdb,db->cb", members, entered)
    groups = (exists / in_group.sum(1).clamp_min(1)).sum(0).round().clamp_min(1)
    discount = outcome.reward.expected_discount(group_probability, groups)
    if outcome.credit == "mini":
        discount = discount.detach()
    return (entered * share * discount).sum(0) / outcome.reward.episodes_per_meta
