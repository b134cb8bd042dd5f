"""How often each length was chosen: N, before each mini-episode of a meta-episode, and in a group side by side.

Everything that counts lengths does so here: `drest_torch.transforms.DReSTReward`, on a batch and in an environment, the
Gymnasium environments, language models and expectations. The compiled kernel of tables alone has counts of its own.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from drest_torch.errors import ConfigError, blaming
from drest_torch.registry import function

MOST_RULED = 1000
"""The largest E with a rule of one's own: binomial coefficients of more are no floats."""


def counts_before(lengths: Tensor, num_lengths: int, weights: Tensor | None = None) -> Tensor:
    """Return N of each length [..., M, k] before each of M mini-episodes, from their lengths in order [..., M].

    A length is an index from 0; −1 stands for a mini-episode that does not count. ``weights`` are those of
    `weights_by_age`; None: each earlier mini-episode counts 1.
    """
    had = _one_hot(lengths, num_lengths)
    if weights is None:
        return had.cumsum(-2) - had
    is_counted = (lengths >= 0).long()
    place = is_counted.cumsum(-1) - is_counted  # [..., M] among those that count
    place = place.unsqueeze(-1).expand_as(had)
    in_place = torch.zeros_like(had).scatter_add(-2, place, had)
    order = torch.arange(lengths.shape[-1], device=lengths.device)
    age = order.unsqueeze(-1) - order  # [M, M]
    weights = weights.to(had)[age.clamp_min(0)]  # 0 for those that are not earlier
    return (weights @ in_place).gather(-2, place)


def counts_after(lengths: Tensor, num_lengths: int, weights: Tensor | None = None) -> Tensor:
    """Return N of each length [..., k] for the next mini-episode, as `counts_before` does for those before it."""
    had = _one_hot(lengths, num_lengths)
    if weights is None:
        return had.sum(-2)
    is_counted = (lengths >= 0).long()
    latest_first = is_counted.flip(-1).cumsum(-1)
    age = latest_first.flip(-1)  # [..., M]; 1 for the last one
    weights = weights.to(had)[age].unsqueeze(-1)
    return (weights * had).sum(-2)


def own_count(counts: Tensor, length: Tensor) -> Tensor:
    """Return the number [...] of the own length among those of all lengths [..., k]; 0 for length −1."""
    place = length.clamp_min(0).unsqueeze(-1)
    own = counts.gather(-1, place).squeeze(-1)
    return torch.where(length >= 0, own, 0)


def alike_in_group(lengths: Tensor, num_lengths: int) -> Tensor:
    """Return how many mini-episodes of its group [..., g] have the length of each, itself among them; 0 for −1."""
    counts = _one_hot(lengths, num_lengths).sum(-2, keepdim=True)
    counts = counts.expand(*lengths.shape, num_lengths)
    return own_count(counts, lengths).long()


def _one_hot(lengths: Tensor, num_lengths: int) -> Tensor:
    """Return whether each mini-episode had each length [..., k], as numbers."""
    every = torch.arange(num_lengths, device=lengths.device)
    return (lengths.unsqueeze(-1) == every).float()


@lru_cache(maxsize=64)
def weights_by_age(count: str, number: int) -> Tensor:
    """Return what a rule of counting says of mini-episodes [number + 1] that were 1, 2, … mini-episodes ago.

    Entry 0 is 0. The rule is a function of these ages, a tensor, and returns what each of them counts.
    """
    if number > MOST_RULED:
        raise ConfigError(f"reward.count={count} with {number} mini-episodes in order; expected at most {MOST_RULED}")
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
    """Return the mean discounts [E] for n alike among the others, from those [i − 1, N] for N alike among the earlier.

    In a random order i − 1 of the other E − 1 mini-episodes are earlier, for each i equally often, and of the n that
    have the same length a hypergeometric number N is among them.
    """
    episodes = len(discounts)
    if episodes > MOST_RULED:
        raise ConfigError(f"reward.episodes_per_meta={episodes} with {key}; expected at most {MOST_RULED}")
    number = torch.arange(episodes, dtype=torch.float64)
    ways = log_choose(number.unsqueeze(-1), number)  # [n, N] of N among n
    ways_of_others = ways.flip(0)  # [n, N] of N among the E − 1 − n others
    total = torch.zeros_like(number)
    for index, discount in enumerate(discounts):
        some = slice(0, index + 1)  # N = 0 … i − 1
        of_alike = ways[:, some]
        of_others = ways_of_others[:, some].flip(1)
        log_chance = of_alike + of_others - ways[-1, index]
        chance = log_chance.exp()
        paid = chance * discount[some]
        total += torch.where(chance > 0, paid, 0).sum(-1)
    return total / episodes


def log_choose(n: Tensor, k: Tensor) -> Tensor:
    """Return the logarithm of n over k; −∞ where k is below 0 or above n."""
    is_inside = (k >= 0) & (k <= n)
    k = torch.where(is_inside, k, 0)
    log_ways = torch.lgamma(n + 1)
    log_ways = log_ways - torch.lgamma(k + 1)
    log_ways = log_ways - torch.lgamma(n - k + 1)
    return torch.where(is_inside, log_ways, -math.inf)
