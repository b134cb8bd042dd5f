"""How often each length was chosen: N, before each mini-episode of a meta-episode, and in a group side by side.

Everything that counts lengths does so here: `drest_torch.transforms.DReSTReward`, on a batch and in an environment, the
Gymnasium environments, language models and expectations. The compiled kernel of tables alone has counts of its own.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from drest_torch.errors import ConfigError
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
    # Those that count stand side by side, so that places are ages.
    counted = (lengths >= 0).long()
    place = (counted.cumsum(-1) - counted).unsqueeze(-1).expand_as(had)  # [..., M, k]
    side_by_side = torch.zeros_like(had).scatter_add(-2, place, had)
    order = torch.arange(lengths.shape[-1], device=lengths.device)
    age = (order.unsqueeze(-1) - order).clamp_min(0)  # [M, M]; age 0 counts 0
    return (weights.to(had)[age] @ side_by_side).gather(-2, place)


def counts_after(lengths: Tensor, num_lengths: int, weights: Tensor | None = None) -> Tensor:
    """Return N of each length [..., k] for the next mini-episode, as `counts_before` does for those before it."""
    had = _one_hot(lengths, num_lengths)
    if weights is None:
        return had.sum(-2)
    age = (lengths >= 0).long().flip(-1).cumsum(-1).flip(-1)  # [..., M]; 1 for the last one
    return (weights.to(had)[age].unsqueeze(-1) * had).sum(-2)


def own_count(counts: Tensor, length: Tensor) -> Tensor:
    """Return the number [...] of the own length among those of all lengths [..., k]; 0 for length −1."""
    own = counts.gather(-1, length.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    return torch.where(length >= 0, own, 0)


def alike_in_group(lengths: Tensor, num_lengths: int) -> Tensor:
    """Return how many mini-episodes of its group [..., g] have the length of each, itself among them; 0 for −1."""
    counts = _one_hot(lengths, num_lengths).sum(-2, keepdim=True)
    return own_count(counts.expand(*lengths.shape, num_lengths), lengths).long()


def _one_hot(lengths: Tensor, num_lengths: int) -> Tensor:
    """Return whether each mini-episode had each length [..., k], as numbers."""
    return (lengths.unsqueeze(-1) == torch.arange(num_lengths, device=lengths.device)).float()


@lru_cache(maxsize=64)
def weights_by_age(count: str, number: int) -> Tensor:
    """Return what a rule of counting says of mini-episodes [number + 1] that were 1, 2, … mini-episodes ago.

    Entry 0 is 0. The rule is a function of these ages, a tensor, and returns what each of them counts.
    """
    if number > MOST_RULED:
        raise ConfigError(f"reward.count={count} with {number} mini-episodes in order; expected at most {MOST_RULED}")
    ages = torch.arange(1, number + 1, dtype=torch.float64)
    counted = function(count, "reward.count")(ages)
    is_usable = isinstance(counted, Tensor) and counted.shape == ages.shape
    if not is_usable or not counted.isfinite().all() or (counted < 0).any():
        raise ConfigError(
            f"reward.count={count} must return a tensor of finite numbers of at least 0, of the shape of its argument"
        )
    return torch.cat((ages.new_zeros(1), counted.to(ages)))
