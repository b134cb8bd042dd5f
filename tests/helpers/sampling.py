"""Samples of choices, and the exact entropy of their probabilities."""

import math

import numpy as np
import torch


def bits(shares):
    shares = torch.as_tensor(shares, dtype=torch.float64)
    return -torch.special.xlogy(shares, shares).sum(-1) / math.log(2)


def sample_counts(shares, times, trials):
    """Return the counts [trials, k] of samples with these probabilities."""
    return torch.from_numpy(np.random.default_rng(0).multinomial(times, shares, trials)).double()


def share_inside(truth, low, high):
    return ((low <= truth + 1e-9) & (truth <= high + 1e-9)).double().mean().item()
