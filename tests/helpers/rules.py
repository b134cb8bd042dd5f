"""Discounts as users write them: ``reward.rule=tests.helpers.rules:NAME``."""


def drest(chosen_before, index, num_lengths, lam):
    return lam ** (chosen_before - index / num_lengths)


def odd(chosen_before, index, num_lengths, lam):
    """Without a pattern that an average could miss."""
    return (1.7 * chosen_before + 0.3 * index * num_lengths).sin() + lam


def wrong(chosen_before, index, num_lengths, lam):
    return lam
