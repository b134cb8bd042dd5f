"""Discount rules of users, for ``reward.rule=tests.helpers.rules:NAME``, and counting rules."""

import torch


def drest(chosen_before, index, num_lengths, lam):
    return lam ** (chosen_before - index / num_lengths)


def odd(chosen_before, index, num_lengths, lam):
    """Return a discount without a regular pattern, so that no error averages out."""
    return (1.7 * chosen_before + 0.3 * index * num_lengths).sin() + lam


def wrong(chosen_before, index, num_lengths, lam):
    return lam


def waning(age):
    """Return weights for ``reward.count`` that fall irregularly with the age of a mini-episode."""
    return 1.5 * 0.8**age + 0.1 * (3.7 * age).sin().abs()


def ones(age):
    return torch.ones_like(age)


def negative(age):
    return -age


def hundredths(age):
    return age * 0 + 0.01
