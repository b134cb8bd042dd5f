"""The DReST reward: counts, exponents, discounts and payment, and their expectation in closed form.

Section 5 of the paper: in mini-episode i of a meta-episode (i = 1 … E), the reward for a coin of value c
is λ^(N − (i−1)/k) · c/m. N is the number of earlier mini-episodes of the meta-episode with the same
trajectory-length, k is the number of lengths, and m is the most that can be collected given the length.

A `Reward` holds the parameters. The functions above it are the formulas. With
``num_lengths=inf`` they leave out the normalising factor λ^(−(i−1)/k), which goes to 1 as k grows.
`drest_torch.counting` counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from drest_torch import counting
from drest_torch.counting import averaged_over_orders, count_of_chosen, log_choose, weights_by_age
from drest_torch.errors import ConfigError, blaming
from drest_torch.limits import limited, limits_of
from drest_torch.metrics import share_of_best
from drest_torch.registry import function

COUNTINGS = ("sequential", "averaged")
MOST_EPISODES = 10_000
"""The maximum of E; expected discounts are sums over the mini-episodes of a meta-episode."""


def averaged_discount(num_lengths: float, episodes_per_meta: int, lam: float) -> Tensor:
    """Return the sequential discount [E], averaged over all orders of E mini-episodes.

    Entry n applies to a mini-episode whose length is shared by n of the E − 1 others, itself not included. The sum of
    these discounts times the preliminary returns over a meta-episode therefore equals the mean of the sequential return
    over orders, and does not depend on an order.

    A random order is the order of E independent times, uniform on [0, 1]. For a mini-episode at time u, each of the
    others is earlier with probability u. An earlier one multiplies the discount by λ^(1−1/k) if it has the
    same length, and by λ^(−1/k) otherwise:

        d(n) = ∫₀¹ (1 − u + u λ^(1−1/k))^n (1 − u + u λ^(−1/k))^(E−1−n) du,

    a polynomial in u, which Gauss-Legendre quadrature with E nodes integrates exactly.
    """
    places, widths = np.polynomial.legendre.leggauss(episodes_per_meta)
    earlier = (torch.from_numpy(places) + 1) / 2  # [E] the nodes u
    same = (1 - earlier + earlier * lam ** (1 - 1 / num_lengths)).log()
    other = (1 - earlier + earlier * lam ** (-1 / num_lengths)).log()
    alike = torch.arange(episodes_per_meta, dtype=torch.float64).unsqueeze(-1)  # [E, 1]
    different = episodes_per_meta - 1 - alike
    integrand = (alike * same + different * other).exp()  # [n, u]
    return (integrand @ torch.from_numpy(widths)) / 2


def expected_discount(
    probability: Tensor,
    num_lengths: Tensor | float,
    episodes_per_meta: int,
    lam: float,
) -> Tensor:
    """Return Σ_i E[λ^(N − (i−1)/k)] over a meta-episode, for a length chosen with probability p.

    The result is exact, and infinite on overflow, unlike `log_expected_discount`. Rewards are clipped when they are
    paid (`Reward.pay`), and so is the objective of exact gradients (`Reward.expected_discount`).
    """
    return log_expected_discount(probability, num_lengths, episodes_per_meta, lam).exp()


def log_expected_discount(
    probability: Tensor,
    num_lengths: Tensor | float,
    episodes_per_meta: int,
    lam: float,
) -> Tensor:
    """Return the logarithm of `expected_discount`, which is finite for every E."""
    return _log_discounts(probability, num_lengths, episodes_per_meta, lam).logsumexp(-1)


def _log_discounts(
    probability: Tensor,
    num_lengths: Tensor | float,
    episodes_per_meta: int,
    lam: float,
) -> Tensor:
    """Return log E[λ^(N − (i−1)/k)] [..., E] of each mini-episode of a meta-episode.

    The policy cannot tell mini-episodes apart. Each of the i − 1 earlier ones therefore has this length independently
    with probability p, and E[λ^N] = (1 − p(1 − λ))^(i−1).
    """
    k = torch.as_tensor(num_lengths).to(probability)
    log_ratio = torch.log1p(-probability * (1 - lam)) - math.log(lam) / k
    earlier = torch.arange(episodes_per_meta).to(probability)
    return log_ratio.unsqueeze(-1) * earlier


def _log_weighted_discounts(
    probability: Tensor,
    num_lengths: Tensor | float,
    weights: Tensor,
    lam: float,
) -> Tensor:
    """Return `_log_discounts` for earlier mini-episodes with ``weights`` [E] by their age.

    A mini-episode of weight w multiplies the discount by λ^(w − w/k) with probability p, and else by λ^(−w/k),
    independently of the others: E[λ^N] = Π_a (1 − p(1 − λ^w(a))).
    """
    k = torch.as_tensor(num_lengths).to(probability).unsqueeze(-1)
    weights = weights.to(probability)
    log_alike = torch.log1p(-probability.unsqueeze(-1) * (1 - lam**weights))
    log_ratio = log_alike - weights * math.log(lam) / k  # [..., E] by age
    return log_ratio.cumsum(-1)


def _clipped_sum(log_discounts: Tensor) -> Tensor:
    """Return the sum of discounts [..., E] from their logarithms, each clipped at the largest reward."""
    largest = math.log(largest_reward(log_discounts.dtype))
    return log_discounts.clamp(max=largest).exp().sum(-1)


def rule_discounts(
    rule: str,
    chosen_before: Tensor,
    index: Tensor | int,
    num_lengths: Tensor | float,
    lam: float,
) -> Tensor:
    """Return the discounts of a custom rule for each N; refuse results that are not finite numbers."""
    with blaming(f"reward.rule={rule}"):
        paid = function(rule, "reward.rule")(chosen_before, index, num_lengths, lam)
    if isinstance(paid, Tensor) and paid.shape == chosen_before.shape and paid.isfinite().all():
        return paid
    raise ConfigError(f"reward.rule={rule} must return a tensor of finite numbers, of the shape of its first argument")


@lru_cache(maxsize=64)  # exact gradients need it in each update
def averaged_rule(rule: str, num_lengths: float, episodes_per_meta: int, lam: float) -> Tensor:
    """Return the discount [E] of a custom rule, averaged over all orders like `averaged_discount`."""
    number = torch.arange(episodes_per_meta, dtype=torch.float64)
    index = number.unsqueeze(-1)  # [i − 1, 1]
    chosen_before = torch.minimum(number, index)  # [i − 1, N]
    discounts = rule_discounts(rule, chosen_before, index, num_lengths, lam)
    return averaged_over_orders(discounts, "reward.rule")


@lru_cache(maxsize=64)
def averaged_count_rule(count: str, num_lengths: float, episodes_per_meta: int, lam: float) -> Tensor:
    """Return the discount [E] of a custom counting rule, averaged over all orders like `averaged_discount`.

    Among i earlier mini-episodes, every set of m with the same length is equally likely. The mean discount follows from
    that of the i − 1 latest ones, because the oldest is one of the m with probability m/i.
    """
    weights = weights_by_age(count, episodes_per_meta - 1)
    number = torch.arange(episodes_per_meta, dtype=torch.float64)
    discount = torch.ones_like(number)  # [m] without earlier mini-episodes
    discounts = [discount]
    for earlier, weight in enumerate(weights[1:].tolist(), 1):
        is_alike = number.clamp(max=earlier) / earlier
        with_oldest = discount.roll(1) * lam ** (weight - weight / num_lengths)
        without = discount * lam ** (-weight / num_lengths)
        discount = is_alike * with_oldest + (1 - is_alike) * without
        discounts.append(discount)
    return averaged_over_orders(torch.stack(discounts), "reward.count")


def expected_rule(probability: Tensor, averaged: Tensor) -> Tensor:
    """Return D(p) of a custom rule from its averages d(n) [..., E]: E Σ_n Binomial(n; E − 1, p) d(n)."""
    episodes = averaged.shape[-1]
    alike = torch.arange(episodes, dtype=torch.float64, device=probability.device)
    different = episodes - 1 - alike
    p = probability.double().unsqueeze(-1)
    ways = log_choose(alike + different, alike).exp()
    chance = ways * p**alike * (1 - p) ** different
    expected = episodes * (chance * averaged).sum(-1)
    return expected.to(probability.dtype)


def largest_reward(dtype: torch.dtype) -> float:
    """Return the clipping limit that keeps squared rewards and gradients finite."""
    return torch.finfo(dtype).max ** (1 / 3)


@dataclass(frozen=True)
class Reward:
    """The parameters of a reward, named as in the paper and in `configs/reward`, with the defaults of DReST."""

    lam: float = limited(above=0, at_most=1, default=0.9)
    """λ in (0, 1]: a smaller λ is a stronger incentive to vary the length; 1 is no incentive."""
    gamma: float = limited(above=0, at_most=1, default=1.0)
    """γ in (0, 1], the discount of a coin per earlier tick."""
    episodes_per_meta: int = limited(at_least=1, at_most=MOST_EPISODES, default=64)
    """E, the number of mini-episodes in a meta-episode."""
    counting: str = limited(choices=COUNTINGS, default="sequential")
    """``sequential``: one mini-episode after another, as in the paper. ``averaged``: side by side, with the mean
    discount over orders if E is the group size, and a larger one otherwise (see `Reward.group_discounts`)."""
    divide_by_best: bool = True
    """True to divide coins by m, the best return for the length."""
    normalise: bool = True
    """True for the normalising factor λ^(−(i−1)/k); the discount is λ^N without it. See docs/explanation/theorem.md."""
    clip: float | None = limited(above=0, finite=False, default=None)
    """The largest reward of a mini-episode; None: no limit."""
    episodes_at_start: int | None = limited(at_least=1, at_most=MOST_EPISODES, default=None)
    """E at the start of training, which changes to ``episodes_per_meta``; None: E is constant."""
    rule: str | None = None
    """``package.module:function`` of a custom discount in place of λ^(N − (i−1)/k), with the arguments N, i − 1, k and
    λ. Averages and expectations follow from it (`averaged_rule`)."""
    count: str | None = None
    """``package.module:function`` of a custom weight of an earlier mini-episode in N, from its age in mini-episodes. In
    place of i − 1, the weights of all earlier mini-episodes are added. Averages and expectations follow from it."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value, limits = getattr(self, entry.name), limits_of(entry)
            if limits is None or value is None:
                continue
            if not limits.allow(value):
                raise ConfigError(f"{entry.name}={value}; expected {limits}")
        if self.rule is not None and self.count is not None:
            raise ConfigError(
                f"reward.rule={self.rule} with reward.count={self.count} has no expectation in closed form; leave out "
                "one of them"
            )

    def check_custom_rules(self) -> None:
        """Refuse custom rules of payment or counting that cannot be called or do not return numbers."""
        if self.rule is not None or self.count is not None:
            self.log10_of_largest()

    def at(self, progress: float) -> Reward:
        """Return the reward at a training progress from 0 to 1; E changes geometrically."""
        if self.episodes_at_start is None:
            return self
        progress = min(max(progress, 0.0), 1.0)
        growth = self.episodes_per_meta / self.episodes_at_start
        episodes = round(self.episodes_at_start * growth**progress)
        return replace(self, episodes_per_meta=episodes, episodes_at_start=None)

    def check_sequential(self) -> None:
        """Refuse averaged counting for mini-episodes that are played one after another."""
        if self.counting == "averaged":
            raise ConfigError(
                "averaged counting with groups of 1; expected at least 2 slots on a level, or counting=sequential"
            )

    def normaliser(self, num_lengths: Tensor | float) -> Tensor | float:
        """Return the k of the normalising factor λ^(−(i−1)/k), infinity without normalisation.

        All exponents and discounts use it.
        """
        if self.normalise:
            return num_lengths
        return math.inf

    def weights(self, number: int) -> Tensor | None:
        """Return the weights of mini-episodes up to the age ``number``; None: each counts 1."""
        if self.count is None:
            return None
        return weights_by_age(self.count, number)

    def counts_before(self, lengths: Tensor, num_lengths: int) -> Tensor:
        """Return N of each length [..., M, k] before each of M mini-episodes, from their lengths in order [..., M]."""
        weights = self.weights(lengths.shape[-1])
        return counting.counts_before(lengths, num_lengths, weights)

    def counts_after(self, lengths: Tensor, num_lengths: int) -> Tensor:
        """Return N of each length [..., k] for the next mini-episode, from the lengths so far in order [..., M]."""
        weights = self.weights(lengths.shape[-1])
        return counting.counts_after(lengths, num_lengths, weights)

    def exponent(self, chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | float) -> Tensor:
        """Return N − (i−1)/k, for N = ``chosen_before`` and i − 1 = ``index``, the number of earlier mini-episodes."""
        k = self.normaliser(num_lengths)
        if isinstance(k, Tensor):
            k = k.to(chosen_before.dtype)
        return chosen_before - index * (1 / k)

    def discount(self, chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | float) -> Tensor:
        """Return λ^(N − (i−1)/k), the sequential discount of a mini-episode, or the discount of the custom rule."""
        if self.rule is not None:
            k = self.normaliser(num_lengths)
            return rule_discounts(self.rule, chosen_before, index, k, self.lam)
        return self.lam ** self.exponent(chosen_before, index, num_lengths)

    def critic_discount(self, chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | float) -> Tensor:
        """Return the critic's observation of a discount: its logarithm, or the discount itself if a rule can give 0."""
        if self.rule is not None:
            return self.discount(chosen_before, index, num_lengths)
        return self.exponent(chosen_before, index, num_lengths) * math.log(self.lam)

    def log10_of_largest(self, num_lengths: float = 2) -> float:
        """Return log10 of the largest discount of the normalised reward: that of a length chosen once, at the end."""
        if self.rule is not None:
            largest = float(self._averaged(num_lengths).max()) * self.episodes_per_meta
            return math.log10(max(largest, 1e-300))
        earlier = float(self.episodes_per_meta - 1)
        weights = self.weights(self.episodes_per_meta - 1)
        if weights is not None:
            earlier = float(weights.sum())
        k = float(self.normaliser(num_lengths))
        return -earlier / k * math.log10(self.lam)

    def group_discounts(self, most_lengths: int, group: int) -> Tensor:
        """Return the discount [k, n] of a mini-episode whose length is shared by n others of its group.

        The mini-episodes of a group are played side by side. Row 0 is unused.

        For E = g the discount is the mean of the sequential discount over all orders of the group. For any other E it
        is the mean over meta-episodes of E mini-episodes in order: this mini-episode takes a uniformly random place,
        and every other place is filled independently and uniformly with one of the g − 1 others. This differs from the
        mean over orders: the discount is convex in the share of others with the same length, and this share is noisy,
        so the discount is larger on average. The difference is 13.6 % for two lengths with p = 1/2, λ = 0.9, g = 16 and
        E = 64, and 3 % for E = 32. The discount still falls in p, so the fixed point remains at equal probabilities. No
        function of g − 1 others has the exact mean for E > g, because that is a polynomial in p of degree E − 1.
        """
        discounts = torch.zeros(most_lengths + 1, group)
        share = torch.arange(group, dtype=torch.float64) / (group - 1)
        for k in range(1, most_lengths + 1):
            if group == self.episodes_per_meta:
                discounts[k] = self._averaged(k)
            else:
                discounts[k] = self.expected_discount(share, k) / self.episodes_per_meta
        return discounts

    def _averaged(self, num_lengths: float) -> Tensor:
        k = float(self.normaliser(num_lengths))
        if self.rule is not None:
            return averaged_rule(self.rule, k, self.episodes_per_meta, self.lam)
        if self.count is not None:
            return averaged_count_rule(self.count, k, self.episodes_per_meta, self.lam)
        return averaged_discount(k, self.episodes_per_meta, self.lam)

    def pay(self, coins: Tensor, discount: Tensor, best_return: Tensor | None) -> Tensor:
        """Return the rewards of mini-episodes from their coins, their discounts and m: discount · C/m, or discount · C.

        A large E and a small λ can make a discount overflow. The reward is therefore clipped, so that sums of its
        square are finite. It is 0 without coins, and if m is 0 because the lotteries of the length only offer losses.
        """
        paid = coins * discount
        is_paid = coins != 0
        if self.divide_by_best:
            assert best_return is not None
            paid = paid / best_return
            is_paid = is_paid & (best_return != 0)
        largest = largest_reward(paid.dtype)
        most = largest
        if self.clip is not None:
            most = self.clip
        return torch.where(is_paid, paid, 0).clamp(-largest, most)

    def preliminary(self, coins: Tensor, best_return: Tensor | None) -> Tensor:
        """Return the preliminary reward, before the discount: C/m, or C."""
        if not self.divide_by_best:
            return coins
        assert best_return is not None
        return share_of_best(coins, best_return)

    def expected_discount(self, probability: Tensor, num_lengths: Tensor | float) -> Tensor:
        """Return D(p), the sum of the expected discounts over a meta-episode for a length with probability p.

        Each term is clipped at the largest reward, like the rewards of `pay`, so that gradients are finite.
        """
        if self.rule is not None:
            k = torch.as_tensor(num_lengths, device=probability.device).long()
            averaged = [self._averaged(number) for number in range(1, int(k.max()) + 1)]
            by_length = torch.stack(averaged).to(k.device)  # [k, n]
            return expected_rule(probability, by_length[k - 1])
        normaliser = self.normaliser(num_lengths)
        weights = self.weights(self.episodes_per_meta - 1)
        if weights is not None:
            return _clipped_sum(_log_weighted_discounts(probability, normaliser, weights, self.lam))
        return _clipped_sum(_log_discounts(probability, normaliser, self.episodes_per_meta, self.lam))

    def expected_return(
        self,
        probability: Tensor,
        preliminary: Tensor,
        num_lengths: Tensor | float,
        *,
        credit: str = "meta",
    ) -> Tensor:
        """Return the expected return [...] of a meta-episode (equation 1 of the paper), exact and differentiable.

        It is Σ_l P(L=l) · E[C | L=l]/m(l) · D(P(L=l)); ``preliminary`` [..., K] is the product of the first two
        factors. Clipping is ignored. With ``credit="mini"`` no gradient flows through D: the counts are constants, as
        in an update with credit within the mini-episode.
        """
        k = torch.as_tensor(num_lengths, device=probability.device).unsqueeze(-1)
        discount = self.expected_discount(probability, k)
        if credit == "mini":
            discount = discount.detach()
        return (preliminary * discount).sum(-1)


class MetaEpisode:
    """The mini-episodes of one agent in order, each of which is paid at its end."""

    def __init__(self, reward: Reward) -> None:
        self.reward = reward
        self.lengths: list[int] = []
        """The index of each length, in order."""

    @property
    def is_complete(self) -> bool:
        return len(self.lengths) >= self.reward.episodes_per_meta

    def pay(self, length: int, num_lengths: int, coins: Tensor, best_return: Tensor | None) -> tuple[float, float]:
        """Count a finished mini-episode, and return its reward and its discount."""
        played = torch.tensor(self.lengths, dtype=torch.int64)
        counts = self.reward.counts_after(played, num_lengths)
        chosen_before = count_of_chosen(counts, torch.tensor(length))
        discount = self.reward.discount(chosen_before, counts.sum(), num_lengths)
        paid = self.reward.pay(coins, discount, best_return)
        self.lengths.append(length)
        return float(paid), float(discount)
