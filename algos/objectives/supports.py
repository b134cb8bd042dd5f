"""DReST over sets of lengths: POSL, which knows preferences only between lotteries with the same possible lengths.

In a level with luck the lotteries that can end with the same lengths are one group g. The value is Σ_g P(g) · F(g) ·
D(P(g)): DReST with groups in place of lengths and, in place of the share of m(l), F(g), the mean over the group's
lengths of E[C | L = l, g] / m(l, g). Where all lotteries have the same lengths that is Neutrality+. Levels without luck
have the return of the reward. Mini-episodes that enter no lottery, or several, count for nothing, so every coin of a
level with luck should lie in a lottery.
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
    """Whether an agent with private bits is to be so under each setting of them: it then pays nothing once it has seen
    them."""


class Objective(base.Objective):
    """DReST over sets of lengths in levels with luck, over lengths in the others."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        over_lengths = drest.Objective(self.config).value(outcome)
        if not bool(outcome.by_luck.any()):
            return over_lengths
        taken, chance, given = outcome.by_lottery()
        each = taken if self.config.given_bits else taken.mean(0, keepdim=True)
        over_sets = torch.stack([over_supports(outcome, one, chance, given) for one in each]).mean(0)
        return torch.where(outcome.by_luck, over_sets, over_lengths)


def over_supports(outcome: base.PolicyOutcome, taken: Tensor, chance: Tensor, given: Tensor) -> Tensor:
    """Return the value [B] of levels whose coins lie in lotteries; the arguments are those of `by_lottery`."""
    chance, given = chance.to(taken.dtype), given.to(taken.dtype)
    possible, exists = chance > 0, chance.sum(-1) > 0
    alike = (possible.unsqueeze(0) == possible.unsqueeze(1)).all(-1) & exists.unsqueeze(0) & exists.unsqueeze(1)
    best = torch.where(alike.unsqueeze(-1), given.unsqueeze(0), -torch.inf).amax(1)
    best = torch.where(best.isfinite(), best, 0)
    among = alike.to(taken.dtype)
    probability, coins = (
        torch.einsum("cdb,db,dbk->cbk", among, taken, each) for each in (chance, chance * given)
    )  # of each one's group
    coins = coins / torch.where(probability > 0, probability, 1)
    flat = share_of_best(coins, best).sum(-1) / possible.sum(-1).clamp_min(1)
    group = torch.einsum("cdb,db->cb", among, taken)
    groups = (exists / alike.sum(1).clamp_min(1)).sum(0).round().clamp_min(1)
    discount = outcome.reward.expected_discount(group, groups)
    discount = discount.detach() if outcome.credit == "mini" else discount
    return (taken * flat * discount).sum(0) / outcome.reward.episodes_per_meta
