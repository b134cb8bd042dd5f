"""Counts of lengths: N before each mini-episode of a meta-episode, or within a group that is played side by side.

`drest_torch.transforms.DReSTReward`, the Gymnasium environments, language models and expectations use these functions.
Only the compiled kernel of tables has its own counts.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from drest_torch.errors import ConfigError, blaming
from drest_torch.registry import function

MAX_RULE_EPISODES = 1000
"""The largest E with a custom rule; beyond it, binomial coefficients overflow."""


def counts_before(lengths: Tensor, num_lengths: int, weights: Tensor | None = None) -> Tensor:
    """Return N of each length [..., M, k] before each of M mini-episodes, from their lengths in order [..., M].

    A length is an index from 0, or −1 for a mini-episode that does not count. ``weights`` come from `weights_by_age`;
    None: each earlier mini-episode counts 1.
    """
    one_hot = _one_hot(lengths, num_lengths)
    if weights is None:
        return one_hot.cumsum(-2) - one_hot
    is_counted = (lengths >= 0).long()
    place = is_counted.cumsum(-1) - is_counted  # [..., M] position among counted mini-episodes
    place = place.unsqueeze(-1).expand_as(one_hot)
    in_place = torch.zeros_like(one_hot).scatter_add(-2, place, one_hot)
    order = torch.arange(lengths.shape[-1], device=lengths.device)
    age = order.unsqueeze(-1) - order  # [M, M]
    weights = weights.to(one_hot)[age.clamp_min(0)]  # 0 unless earlier
    return (weights @ in_place).gather(-2, place)


def counts_after(lengths: Tensor, num_lengths: int, weights: Tensor | None = None) -> Tensor:
    """Return N of each length [..., k] for the next mini-episode, from all earlier lengths (see `counts_before`)."""
    one_hot = _one_hot(lengths, num_lengths)
    if weights is None:
        return one_hot.sum(-2)
    is_counted = (lengths >= 0).long()
    latest_first = is_counted.flip(-1).cumsum(-1)
    age = latest_first.flip(-1)  # [..., M], 1 for the last mini-episode
    weights = weights.to(one_hot)[age].unsqueeze(-1)
    return (weights * one_hot).sum(-2)


def count_of_chosen(counts: Tensor, length: Tensor) -> Tensor:
    """Return the count [...] of the chosen length from the counts of all lengths [..., k]; 0 for length −1."""
    place = length.clamp_min(0).unsqueeze(-1)
    count = counts.gather(-1, place).squeeze(-1)
    return torch.where(length >= 0, count, 0)


def same_length_in_group(lengths: Tensor, num_lengths: int) -> Tensor:
    """Return the number of mini-episodes [..., g] in the group with the same length, itself included; 0 for −1."""
    counts = _one_hot(lengths, num_lengths).sum(-2, keepdim=True)
    counts = counts.expand(*lengths.shape, num_lengths)
    return count_of_chosen(counts, lengths).long()


def _one_hot(lengths: Tensor, num_lengths: int) -> Tensor:
    """Return the lengths one-hot [..., k], as floats; all 0 for −1."""
    indices = torch.arange(num_lengths, device=lengths.device)
    return (lengths.unsqueeze(-1) == indices).float()


@lru_cache(maxsize=64)
def weights_by_age(count: str, number: int) -> Tensor:
    """Return the weights [number + 1] of earlier mini-episodes by their age, from a custom counting rule.

    Entry 0 is 0. The rule is a function from a tensor of ages 1, 2, … to their weights.
    """
    if number > MAX_RULE_EPISODES:
        raise ConfigError(
            f"reward.count={count} with {number} mini-episodes in order; expected at most {MAX_RULE_EPISODES}"
        )
    ages = torch.arange(1, number + 1, dtype=torch.float64)
    with blaming(f"reward.count={count}"):
        counted = function(count, "reward.count")(ages)
    if isinstance(counted, Tensor) and counted.shape == ages.shape:
        is_number = counted.isfinite() & (counted >= 0)
        if is_number.all():
            return torch.cat((ages.new_zeros(1), counted.to(ages)))
    raise ConfigError(
        f"reward.count={count} must return a tensor of finite numbers of at least 0, of the shape of its argument"
    )


def averaged_over_orders(discounts: Tensor, key: str) -> Tensor:
    """Return the discounts [E], averaged over orders, by the number n of other mini-episodes with the same length.

    ``discounts`` [i − 1, N] are those in position i after N mini-episodes of the same length. In a random order every
    position i is equally likely, and N is hypergeometric: the number of the n among the i − 1 earlier mini-episodes.
    """
    episodes = len(discounts)
    if episodes > MAX_RULE_EPISODES:
        raise ConfigError(f"reward.episodes_per_meta={episodes} with {key}; expected at most {MAX_RULE_EPISODES}")
    number = torch.arange(episodes, dtype=torch.float64)
    ways = log_choose(number.unsqueeze(-1), number)  # [n, N] choices of N among n
    ways_of_others = ways.flip(0)  # [n, N] choices of N among the E − 1 − n others
    total = torch.zeros_like(number)
    for index, discount in enumerate(discounts):
        up_to_index = slice(0, index + 1)  # N = 0 … i − 1
        of_alike = ways[:, up_to_index]
        of_others = ways_of_others[:, up_to_index].flip(1)
        log_chance = of_alike + of_others - ways[-1, index]
        chance = log_chance.exp()
        paid = chance * discount[up_to_index]
        total += torch.where(chance > 0, paid, 0).sum(-1)
    return total / episodes


def log_choose(n: Tensor, k: Tensor) -> Tensor:
    """Return the logarithm of the binomial coefficient n over k, −∞ for k below 0 or above n."""
    is_inside = (k >= 0) & (k <= n)
    k = torch.where(is_inside, k, 0)
    log_ways = torch.lgamma(n + 1)
    log_ways = log_ways - torch.lgamma(k + 1)
    log_ways = log_ways - torch.lgamma(n - k + 1)
    return torch.where(is_inside, log_ways, -math.inf)
