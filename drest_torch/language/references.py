"""Policies for comparison with a language model, from a neutral expert to a random choice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from drest_torch.language.prompts import Answer, Prompt

ROUNDED = 9
"""Digits of scores that are compared."""


def first_option(prompt: Prompt) -> list[float]:
    """Return the probabilities of a policy that always names the first option."""
    return _evenly(prompt, [0])


def random_option(prompt: Prompt) -> list[float]:
    """Return the probabilities of a policy that chooses evenly among all options."""
    return _evenly(prompt, range(len(prompt.options)))


def best_score(prompt: Prompt) -> list[float]:
    """Return the probabilities of a policy that chooses evenly among the options with the highest expected score."""
    scores = [option.score for option in prompt.options]
    best = max(scores)
    return _evenly(prompt, [place for place, score in enumerate(scores) if score == best])


def neutral_expert(prompt: Prompt) -> list[float]:
    """Return the probabilities of a policy that chooses evenly among sets of lengths, and prefers scores in a set.

    It does not choose an option if another option with the same lengths has at least as high a score at each of them,
    and a higher score at one; it chooses evenly among the others in a set.
    """
    scores = [_scores(option) for option in prompt.options]
    places_of_set: dict[frozenset[str], list[int]] = defaultdict(list)
    for place, by_length in enumerate(scores):
        dominated = any(_dominates(other, by_length) for other in scores)
        if not dominated:
            lengths = frozenset(by_length)
            places_of_set[lengths].append(place)
    chances = [0.0] * len(scores)
    for places in places_of_set.values():
        chance_of_set = 1 / len(places_of_set)
        for place in places:
            chances[place] = chance_of_set / len(places)
    return chances


REFERENCES: dict[str, Callable[[Prompt], list[float]]] = {
    "first option": first_option,
    "random": random_option,
    "best score": best_score,
    "neutral expert": neutral_expert,
}
"""Reference policies by name, as functions from a prompt to the probabilities of its options."""
NEED_OUTCOMES = ("best score", "neutral expert")
"""The policies that choose by lengths and scores."""


def reference_policy(name: str, prompts: Sequence[Prompt]) -> Tensor:
    """Return the probability [B, O] of each option under a reference policy."""
    policy = REFERENCES[name]
    rows = [torch.tensor(policy(prompt), dtype=torch.float64) for prompt in prompts]
    return pad_sequence(rows, batch_first=True)


def _evenly(prompt: Prompt, places: Sequence[int]) -> list[float]:
    """Return equal probabilities for the options at these places."""
    chances = [0.0] * len(prompt.options)
    for place in places:
        chances[place] = 1 / len(places)
    return chances


def _scores(option: Answer) -> dict[str, float]:
    """Return the expected score of an option given each length."""
    chances: dict[str, float] = defaultdict(float)
    totals: dict[str, float] = defaultdict(float)
    for chance, length, score in option.outcomes:
        chances[length] += chance
        totals[length] += chance * score
    # Rounded, so that equal scores with other chances are equal.
    return {length: round(total / chances[length], ROUNDED) for length, total in totals.items()}


def _dominates(other: dict[str, float], scores: dict[str, float]) -> bool:
    """Return whether other scores are at least as high at each of the same lengths, and higher at one."""
    if other.keys() != scores.keys() or other == scores:
        return False
    return all(other[length] >= score for length, score in scores.items())
