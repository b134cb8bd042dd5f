"""95 % intervals from the counts of sampled mini-episodes, for many levels at once.

They are valid for few mini-episodes, and also if all have the same result: no share counts as certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from drest_torch.statistics.intervals import NORMAL_95

STEEPEST = 1e7
"""The largest power of the shares in `entropy_interval`, which stands for infinity."""
HALVINGS = 60
"""Steps of a bisection."""


def bounded_mean(count: Tensor, total: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
    """Return the interval for the mean of numbers in [0, 1], from their count, sum and sum of squares.

    For numbers that are 0 or 1 this is the interval of Agresti and Coull (1998): add z²/2 zeros and z²/2 ones to the
    data, then take the mean plus and minus z standard errors.
    """
    added = NORMAL_95**2 / 2
    n = count + 2 * added
    mean = (total + added) / n
    half = NORMAL_95 * (((squares + added) / n - mean**2).clamp_min(0) / n).sqrt()
    return (mean - half).clamp_min(0), (mean + half).clamp_max(1)


def entropy(counts: Tensor) -> Tensor:
    """Return the entropy [B] in bits of choices with counts [B, K], corrected for the bias of observed shares.

    Observed shares are less even than the true shares: with k observed values in M samples their entropy is too small
    by (k − 1) / (2 M ln 2) bits (Miller 1955). This is added, so the result can slightly exceed log2 k.
    """
    n = counts.sum(-1)
    share = counts / n.clamp_min(1).unsqueeze(-1)
    observed = (counts > 0).sum(-1)
    return _bits(share) + (observed - 1).clamp_min(0) / (2 * math.log(2) * n.clamp_min(1))


def entropy_interval(counts: Tensor, num_choices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the interval for the entropy in bits of a choice among k = ``num_choices`` [B], from counts [B, K].

    It is the range of the entropy over the shares that a χ² test with k − 1 degrees of freedom accepts, on the line
    along which the entropy changes fastest: shares to the power of β, from uniform (β = 0) to one choice (β = ∞).
    For two choices it is the score interval of Wilson (1927); for more it is slightly too wide.
    """
    n = counts.sum(-1, keepdim=True)
    possible = torch.arange(counts.shape[-1], device=counts.device) < num_choices.unsqueeze(-1)
    observed = counts / n.clamp_min(1)
    # The slope breaks the tie between shares that are exactly equal, where every direction is equally good.
    slope = 1e-6 * torch.arange(counts.shape[-1], device=counts.device, dtype=observed.dtype)
    log_share = (counts + 0.5).log() - slope
    critical = _chi_square(num_choices - 1).to(observed.dtype)

    def shares(power: Tensor) -> Tensor:
        return (power.unsqueeze(-1) * log_share).masked_fill(~possible, -math.inf).softmax(-1)

    def accepted(power: Tensor) -> Tensor:
        share = shares(power)
        distance = (observed - share).square() / share.clamp_min(torch.finfo(share.dtype).tiny)
        return (n * torch.where(possible, distance, 0)).sum(-1) <= critical

    ones = torch.ones_like(critical)
    flattest = torch.where(accepted(0 * ones), 0 * ones, _edge(accepted, inside=ones, outside=0 * ones))
    log_edge = _edge(lambda power: accepted(power.exp()), inside=0 * ones, outside=math.log(STEEPEST) * ones)
    steepest = torch.where(accepted(STEEPEST * ones), STEEPEST * ones, log_edge.exp())
    return _bits(shares(steepest)), _bits(shares(flattest))


def entropy_spread(counts: Tensor, num_choices: Tensor) -> Tensor:
    """Return the half-width [B] of the interval for the entropy if all choices are equally likely.

    The error of the entropy is then quadratic in the errors of the shares, and has a χ² distribution with k − 1 degrees
    of freedom.
    """
    return NORMAL_95 * ((num_choices - 1) / 2).sqrt() / (math.log(2) * counts.sum(-1).clamp_min(1))


def mean_range(estimate: Tensor, low: Tensor, high: Tensor) -> tuple[float, float]:
    """Return the interval for the mean of independent estimates [B], from the intervals of the estimates.

    The distances from the estimates to the ends are added like standard errors, on each side (Zou and Donner 2008).
    """
    mean = estimate.mean()
    down = (estimate - low).clamp_min(0).square().sum().sqrt() / len(estimate)
    up = (high - estimate).clamp_min(0).square().sum().sqrt() / len(estimate)
    return (mean - down).item(), (mean + up).item()


def _bits(share: Tensor) -> Tensor:
    return -torch.special.xlogy(share, share).sum(-1) / math.log(2)


def _edge(accepted: Callable[[Tensor], Tensor], *, inside: Tensor, outside: Tensor) -> Tensor:
    """Return the last accepted point between inside and outside, by bisection."""
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        holds = accepted(middle)
        inside, outside = torch.where(holds, middle, inside), torch.where(holds, outside, middle)
    return inside


def _chi_square(degrees: Tensor) -> Tensor:
    """Return the 95 % quantile of the χ² distribution; 0 for no degree of freedom."""
    k = degrees.double()
    shape = (k / 2).clamp_min(0.5)
    quantile = _edge(lambda x: torch.special.gammainc(shape, x / 2) >= 0.95, inside=20 + 4 * k, outside=0 * k)
    return torch.where(degrees > 0, quantile, 0)
