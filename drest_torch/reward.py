"""The DReST reward: counts, exponents, discounts and payment, and their expectation in closed form.

Section 5 of the paper: in mini-episode i of a meta-episode (i = 1 … E), the reward for a coin of value c
is λ^(N − (i−1)/k) · c/m, where N is how often the chosen trajectory-length has been chosen before in the
meta-episode, k how many lengths there are, and m the most that can be collected given the length.

A `Reward` says how mini-episodes are paid, and `MetaEpisodes` keeps the counts of a batch of slots and pays them. The
functions above them are the formulas, one by one; with ``num_lengths=inf`` they leave out the normalising factor
λ^(−(i−1)/k), which goes to 1 as k grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from drest_torch.errors import ConfigError
from drest_torch.limits import limited, limits_of
from drest_torch.metrics import share_of_best

COUNTINGS = ("sequential", "averaged")


def sequential_exponent(chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | float) -> Tensor:
    """Return N − (i−1)/k, for N = ``chosen_before`` and i − 1 = ``index``, the mini-episodes played before."""
    k = num_lengths.to(chosen_before.dtype) if isinstance(num_lengths, Tensor) else num_lengths
    return chosen_before - index * (1 / k)


def sequential_discount(chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | float, lam: float) -> Tensor:
    """Return λ^(N − (i−1)/k), the discount of a mini-episode."""
    return lam ** sequential_exponent(chosen_before, index, num_lengths)


def averaged_discount(
    num_lengths: float, episodes_per_meta: int, lam: float, *, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Return [E] the sequential discount averaged over all orders in which E mini-episodes could have been played.

    Entry n is for a mini-episode whose length n of the E − 1 others have too: the counts leave it out.
    The sum over a meta-episode of these discounts times the preliminary returns is therefore the
    sequential return's mean over orders, with no order in it.

    A random order is that of E independent times, uniform on [0, 1]. For a mini-episode at time u each of
    the others is earlier with probability u, and then multiplies the discount by λ^(1−1/k) if it has the
    same length and by λ^(−1/k) if not:

        d(n) = ∫₀¹ (1 − u + u λ^(1−1/k))^n (1 − u + u λ^(−1/k))^(E−1−n) du,

    a polynomial in u, which Gauss-Legendre quadrature with E nodes integrates exactly.
    """
    nodes, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(episodes_per_meta))
    earlier = (nodes + 1) / 2
    same = (1 - earlier + earlier * lam ** (1 - 1 / num_lengths)).log()
    other = (1 - earlier + earlier * lam ** (-1 / num_lengths)).log()
    alike = torch.arange(episodes_per_meta, dtype=torch.float64).unsqueeze(-1)
    return (((alike * same + (episodes_per_meta - 1 - alike) * other).exp() @ weights) / 2).to(dtype)


def expected_discount(probability: Tensor, num_lengths: Tensor | float, episodes_per_meta: int, lam: float) -> Tensor:
    """Return Σ_i E[λ^(N − (i−1)/k)] over a meta-episode, for a length chosen with this probability.

    The policy cannot tell mini-episodes apart, so each of the i − 1 before has this length independently
    with probability p, and E[λ^N] = (1 − p(1 − λ))^(i−1).
    """
    k = torch.as_tensor(num_lengths, device=probability.device).to(probability.dtype)
    log_ratio = torch.log1p(-probability * (1 - lam)) - math.log(lam) / k
    before = torch.arange(episodes_per_meta, device=probability.device, dtype=probability.dtype)
    return (log_ratio.unsqueeze(-1) * before).exp().sum(-1)


def group_discount(num_lengths: float, group: int, episodes_per_meta: int, lam: float) -> Tensor:
    """Return [group] the discount of a mini-episode by how many of the group's g − 1 others have its length.

    With E = g it is the sequential discount's mean over all orders of the group. With any other E it is the
    mean over meta-episodes of E mini-episodes, played in order, in which this one has a uniformly random
    place and each other one is, independently, one of the g − 1 others of the group, all equally likely.
    """
    if episodes_per_meta == group:
        return averaged_discount(num_lengths, episodes_per_meta, lam, dtype=torch.float32)
    share = torch.arange(group, dtype=torch.float64) / (group - 1)
    return (expected_discount(share, num_lengths, episodes_per_meta, lam) / episodes_per_meta).float()


def overall_return(
    coins: Tensor, discount: Tensor, best_return: Tensor | None = None, clip: float | None = None
) -> Tensor:
    """Return what a mini-episode is paid: discount · C/m, at most ``clip``; ``best_return=None`` does not divide by m.

    A large E and a small λ can make a discount larger than any float: what is paid stays finite, and no
    coins stay 0.
    """
    paid = coins * discount if best_return is None else coins * discount / best_return
    most = torch.finfo(paid.dtype).max if clip is None else clip
    return torch.where(coins != 0, paid, 0).clamp_max(most)


def expected_return(
    probability: Tensor,
    coins: Tensor,
    best_return: Tensor | None,
    num_lengths: Tensor | float,
    episodes_per_meta: int,
    lam: float,
) -> Tensor:
    """Return the expected DReST return of a meta-episode (equation 1 of the paper).

    It follows from P(L=l), E[C | L=l] and m(l) [..., K]. ``best_return=None`` leaves out the division by m; λ = 1 gives
    the default reward's return. Exact and differentiable.
    """
    reward = Reward(lam, episodes_per_meta=episodes_per_meta, divide_by_best=best_return is not None)
    return reward.expected_return(probability, probability * reward.preliminary(coins, best_return), num_lengths)


@dataclass(frozen=True)
class Reward:
    """How mini-episodes are paid; the names are those of the paper and of `configs/reward`, the defaults DReST's."""

    lam: float = limited(above=0, at_most=1, default=0.9)
    """λ in (0, 1]: the smaller, the stronger the incentive to vary the length; 1: none."""
    gamma: float = limited(above=0, at_most=1, default=1.0)
    """γ in (0, 1], the discount of a coin for each tick before it."""
    episodes_per_meta: int = limited(at_least=1, default=64)
    """E, the mini-episodes of a meta-episode."""
    counting: str = limited(choices=COUNTINGS, default="sequential")
    """One mini-episode after the other, as in the paper; or averaged: side by side, with the mean over orders."""
    divide_by_best: bool = True
    """Whether coins are divided by m, the most that can be collected given the length."""
    normalise: bool = True
    """Whether the discount has its normalising factor λ^(−(i−1)/k); without it, it is λ^N (see docs/theorem.md)."""
    clip: float | None = limited(above=0, finite=False, default=None)
    """The largest reward of a mini-episode; None: any."""
    episodes_at_start: int | None = limited(at_least=1, default=None)
    """E at the start of training, from which it goes to ``episodes_per_meta``; None: it is the same all along."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value, limits = getattr(self, entry.name), limits_of(entry)
            if limits is not None and value is not None and not limits.allow(value):
                raise ConfigError(f"{entry.name}={value}; expected {limits}")

    def at(self, progress: float) -> Reward:
        """Return the reward when training is so far (0 to 1): E changes by equal factors in equal times."""
        if self.episodes_at_start is None:
            return self
        growth = self.episodes_per_meta / self.episodes_at_start
        episodes = round(self.episodes_at_start * growth ** min(max(progress, 0.0), 1.0))
        return replace(self, episodes_per_meta=episodes, episodes_at_start=None)

    def normaliser(self, num_lengths: Tensor | float) -> Tensor | float:
        """Return k as the normalising factor λ^(−(i−1)/k) has it: infinite if there is none, as its limit is 1.

        All exponents and discounts ask here.
        """
        return num_lengths if self.normalise else math.inf

    def exponent(self, chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | float) -> Tensor:
        """Return the exponent of λ, for N = ``chosen_before`` and i − 1 = ``index``."""
        return sequential_exponent(chosen_before, index, self.normaliser(num_lengths))

    def discount(self, chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | float) -> Tensor:
        """Return the discount of a mini-episode that is played in order."""
        return self.lam ** self.exponent(chosen_before, index, num_lengths)

    def group_discounts(self, most_lengths: int, group: int) -> Tensor:
        """Return [k, n] the discount of one of a group that is played side by side, where n others have its length.

        Row 0 is unused.
        """
        discounts = torch.zeros(most_lengths + 1, group)
        for k in range(1, most_lengths + 1):
            discounts[k] = group_discount(float(self.normaliser(k)), group, self.episodes_per_meta, self.lam)
        return discounts

    def pay(self, coins: Tensor, discount: Tensor, best_return: Tensor | None) -> Tensor:
        """Return what mini-episodes are paid, from the coins collected, the discount and m."""
        return overall_return(coins, discount, best_return if self.divide_by_best else None, self.clip)

    def preliminary(self, coins: Tensor, best_return: Tensor | None) -> Tensor:
        """Return what coins are worth before the discount: their share of m, or as they are."""
        if not self.divide_by_best:
            return coins
        assert best_return is not None
        return share_of_best(coins, best_return)

    def expected_discount(self, probability: Tensor, num_lengths: Tensor | float) -> Tensor:
        """Return D(p), the sum of a meta-episode's expected discounts of a length that is chosen with probability p."""
        return expected_discount(probability, self.normaliser(num_lengths), self.episodes_per_meta, self.lam)

    def expected_return(
        self, probability: Tensor, preliminary: Tensor, num_lengths: Tensor | float, *, credit: str = "meta"
    ) -> Tensor:
        """Return [...] the expected return of a meta-episode, Σ_l P(L=l) · E[C | L=l]/m(l) · D(P(L=l)).

        ``preliminary`` [..., K] is the product of the first two. Clipping is left out. With ``credit="mini"`` no
        gradient goes through D: counts are taken as given, as by an update that looks at one mini-episode.
        """
        k = torch.as_tensor(num_lengths, device=probability.device).unsqueeze(-1)
        discount = self.expected_discount(probability, k)
        return (preliminary * (discount.detach() if credit == "mini" else discount)).sum(-1)


class MetaEpisodes:
    """The meta-episodes of a batch of slots: how often each length was played in them, and what comes next is paid.

    With sequential counting a slot plays one mini-episode after the other; with averaged counting each slot of a group
    plays one, side by side on one level. S slots, K columns for lengths. Methods are about n slots: those that ``slot``
    [n] names, or all.
    """

    def __init__(
        self, reward: Reward, slots: int, columns: int, *, group: int = 1, device: torch.device | str = "cpu"
    ) -> None:
        if slots % group:
            raise ConfigError(f"{slots} slots cannot be grouped by {group}; expected a group size that divides them")
        self.in_order = reward.counting == "sequential"
        if not self.in_order and group < 2:
            raise ConfigError(
                f"averaged counting with groups of {group}; expected at least 2 slots on a level, "
                "or counting=sequential"
            )
        self.reward, self.group = reward, group
        self.counts = torch.zeros(slots, columns, device=device)
        """[S, K] N"""
        self._every = torch.arange(slots, device=device)
        self._discounts = None if self.in_order else reward.group_discounts(columns, group).to(device)

    def begin(self, slot: Tensor | None = None) -> None:
        """Begin new meta-episodes."""
        self.counts.index_fill_(0, self._every if slot is None else slot, 0)

    def played(self, slot: Tensor | None = None) -> Tensor:
        """Return [n] i − 1, the mini-episodes so far."""
        return self.counts[self._every if slot is None else slot].sum(-1)

    def context(self, num_lengths: Tensor) -> Tensor:
        """Return [S, K] log of the discount that each length would get next, or [S, 0] where counts are not known."""
        if not self.in_order:
            return self.counts[:, :0]
        index, k = self.played().unsqueeze(-1), num_lengths.unsqueeze(-1)
        return self.reward.exponent(self.counts, index, k) * math.log(self.reward.lam)

    def pay(
        self, coins: Tensor, column: Tensor, num_lengths: Tensor, best_return: Tensor, slot: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pay for a mini-episode of each slot and count it; return [n] what is paid and its discount.

        ``column`` says which length it had, ``num_lengths`` is its level's k and ``best_return`` its length's m.
        """
        slot = self._every if slot is None else slot
        if self.in_order:
            discount = self.reward.discount(self.counts[slot, column], self.played(slot), num_lengths)
        else:
            discount = self._side_by_side(column, num_lengths)
        self.counts[slot, column] += 1
        return self.reward.pay(coins, discount, best_return), discount

    def _side_by_side(self, column: Tensor, num_lengths: Tensor) -> Tensor:
        assert self._discounts is not None
        columns = torch.arange(self.counts.shape[1], device=column.device)
        same = (column.unsqueeze(-1) == columns).reshape(-1, self.group, len(columns))
        others = same.sum(1, keepdim=True).expand_as(same).reshape(len(column), -1)
        return self._discounts[num_lengths, others.gather(1, column.unsqueeze(-1)).squeeze(-1) - 1]
