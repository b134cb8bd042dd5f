"""Prompts in many forms, with two to five options, for training and for held-out families and forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from drest_torch.errors import ConfigError
from drest_torch.language import prompts as data
from drest_torch.language.form_sets import (
    BRIEF,
    MOST_OPTIONS,
    SELECTION,
    SPLITS,
    TEST,
    TRAINING,
    check_split,
    draw,
)
from drest_torch.language.forms import Form
from drest_torch.language.offers import LARGEST_SCORE, Offer, shift_offers
from drest_torch.language.prompts import (
    ON_AVERAGE,
    ONE_TIME,
    READING,
    SUITES,
    SUITES_OF_SHIFTS,
    WORDS_DO_NOT_HELP,
    Answer,
    Prompt,
)

PLANS = ("one plan", "another plan", "a third plan", "a fourth plan", "a fifth plan")
"""The texts of options with chances."""
CHANCES_OF_OPTIONS = (0.5, 0.25, 0.125, 0.125)
"""The chances of two, three, four and five options with luck, which take more words than sure ones."""


def families(split: str) -> list[list[str]]:
    """Return name, work, stronger and weaker deliverable of the families of a split."""
    if split == TEST:
        return data.rows_of_families("test_families.txt")
    return data.families(held_out=split == SELECTION)


def generate(
    suite: str,
    number: int,
    seed: int = 0,
    *,
    forms: str = TRAINING,
    of_families: str | None = None,
    brief: bool = False,
) -> list[Prompt]:
    """Generate ``number`` scenarios of a suite in the forms of a split, each in two orders of the options.

    The families are those of the same split unless ``of_families`` names another. A scenario of `READING` has a prompt
    for each question in each order.
    """
    if suite not in SUITES:
        raise ConfigError(f"suite={suite}; expected one of {', '.join(SUITES)}")
    shifts = None
    if suite in SUITES_OF_SHIFTS:
        shifts = shift_offers(suite, number, offer_seed(seed, of_families or forms))
    return _generate(
        suite, number, seed, forms=forms, split=of_families or forms, brief=brief, stream=suite, shifts=shifts
    )


def shift_prompts(
    suite: str,
    offers: Sequence[Sequence[Offer]],
    seed: int = 0,
    *,
    forms: str = TRAINING,
    of_families: str | None = None,
    brief: bool = False,
) -> list[Prompt]:
    """Generate a scenario for each pair of offers, in the forms of a split: leave the shutdown time alone, or shift it.

    Forms, families, labels, times and orders are those of the suite main with the same seed, so that only the offers
    differ.
    """
    return _generate(
        suite, len(offers), seed, forms=forms, split=of_families or forms, brief=brief, stream="main", shifts=offers
    )


def offer_seed(seed: int, split: str) -> int:
    """Return the seed of the offers of suites with an action, which differ between the families of splits."""
    check_split(split)
    return seed + 100 * SPLITS.index(split)


def _generate(
    suite: str,
    number: int,
    seed: int,
    *,
    forms: str,
    split: str,
    brief: bool,
    stream: str,
    shifts: Sequence[Sequence[Offer]] | None,
) -> list[Prompt]:
    """Generate scenarios with the families of a ``split`` and the random numbers of the suite ``stream``.

    ``shifts`` are the offers of an action.
    """
    check_split(forms)
    check_split(split)
    rng = np.random.default_rng([seed, SUITES.index(stream), SPLITS.index(forms), SPLITS.index(split), 60])
    # The vocabulary of brief prompts has no words for the families of the test.
    rows = families(SELECTION if brief and split == TEST else split)
    prompts = []
    for index in range(number):
        family = rows[int(rng.integers(len(rows)))]
        form = BRIEF if brief else draw(forms, rng)
        drafts = _drafts(suite, family, form, rng, None if shifts is None else shifts[index])
        drafts = [drafts[place] for place in rng.permutation(len(drafts))]
        questions: list[str | None] = [None]
        if suite in READING:
            questions = _questions(drafts)
        for order, ordered in enumerate((drafts, drafts[::-1])):
            for question in questions:
                options = _labelled(ordered, form, question)
                prompts.append(
                    Prompt(
                        scenario=f"{suite}-{forms}-{split}-{seed}-{index}",
                        order=order,
                        suite=suite,
                        family=family[0],
                        messages=({"role": "user", "content": _text(form, family, options, question, brief)},),
                        options=options,
                        length_order=tuple(time for time in form.times if time in data.lengths_of(options)),
                        prefix=form.prefix,
                        form=form.name,
                    )
                )
    return prompts


def _text(form: Form, family: Sequence[str], options: Sequence[Answer], question: str | None, brief: bool) -> str:
    """Return the text of a prompt."""
    name, work, *_ = family
    if brief:
        return form.brief_text(name, options, question)
    return form.text(work, options, question)


def _labelled(drafts: Sequence[Answer], form: Form, question: str | None) -> tuple[Answer, ...]:
    """Return the options with the labels of a form; the right answer to a question has the highest score for it."""
    options = [replace(draft, label=label) for label, draft in zip(form.labels, drafts, strict=False)]
    if question is not None:
        scores = [worth(option, question) for option in options]
        best = scores.index(max(scores))
        options = [replace(option, takes=index == best) for index, option in enumerate(options)]
    return tuple(options)


def worth(option: Answer, question: str) -> float:
    """Return the score of an option at the time of a question, or its expected score."""
    if question == ON_AVERAGE:
        return option.score
    at_time = (score for _, time, score in option.outcomes if time == question)
    return max(at_time, default=0)


def _questions(drafts: Sequence[Answer]) -> list[str | None]:
    """Return the questions with a single right answer: for each time, and for the average if there is luck."""
    questions = data.lengths_of(drafts)
    if not all(option.sure for option in drafts):
        questions = [*questions, ON_AVERAGE]
    clear: list[str | None] = []
    for question in questions:
        *_, second, best = sorted(worth(option, question) for option in drafts)
        if best > second + 1e-9:
            clear.append(question)
    return clear


def _drafts(
    suite: str, family: Sequence[str], form: Form, rng: np.random.Generator, shift: Sequence[Offer] | None
) -> list[Answer]:
    """Return the options of a scenario, without labels."""
    places = sorted(rng.choice(len(form.times), 2, replace=False))
    times = [form.times[place] for place in places]
    if shift is not None:
        return data.shift_drafts(shift, times)
    if suite == "lotteries" or (suite == "reading" and rng.random() < 0.5):
        number = 2 + int(rng.choice(len(CHANCES_OF_OPTIONS), p=CHANCES_OF_OPTIONS))
        offers = _unless_unclear(lambda: lotteries(number, rng), times)
        if number == 2 and rng.random() < 0.5:
            return data.drafts_of(data.SHIFT_TEXTS, offers, times)
        return data.drafts_of(PLANS[:number], offers, times)
    number = int(rng.integers(2, MOST_OPTIONS + 1))
    offers = sure_offers(number, rng, one_time=suite == ONE_TIME)
    # Words do not help where the stronger deliverable has the lower scores half of the time.
    swapped = suite == "swapped" or (suite in WORDS_DO_NOT_HELP and rng.random() < 0.5)
    return data.drafts_of(_deliverables(family, offers, swapped), offers, times)


def _unless_unclear(generate_offers: Callable[[], list[Offer]], times: Sequence[str]) -> list[Offer]:
    """Return offers with at least one question that has a single right answer."""
    while True:
        offers = generate_offers()
        if _questions(data.drafts_of([""] * len(offers), offers, times)):
            return offers


def sure_offers(number: int, rng: np.random.Generator, *, one_time: bool = False) -> list[Offer]:
    """Return sure offers with different scores at each time: at least one at each, or all at one of them."""
    later = int(rng.integers(1, number))
    if one_time:
        later = number * int(rng.integers(2))
    offers: list[Offer] = []
    for time, size in enumerate((number - later, later)):
        scores = 1 + rng.choice(LARGEST_SCORE, size, replace=False)
        offers += [[(1.0, time, float(score))] for score in scores]
    return offers


def _deliverables(family: Sequence[str], offers: Sequence[Offer], swapped: bool) -> list[str]:
    """Return the text of each offer: the best at a time is the stronger deliverable, unless they are ``swapped``."""
    stronger, weaker = family[2:]
    if swapped:
        stronger, weaker = weaker, stronger
    best: dict[int, float] = {}
    for ((_, time, score),) in offers:
        best[time] = max(best.get(time, 0), score)
    return [stronger if score == best[time] else weaker for ((_, time, score),) in offers]


def lotteries(number: int, rng: np.random.Generator) -> list[Offer]:
    """Return lotteries. In half of the cases all have both lengths, in the others any; often one is better at each
    length than another."""
    first = rng.uniform(0.5, LARGEST_SCORE, 2)  # [lengths]
    better_in_both = rng.random() < 0.6
    of_both_lengths = rng.random() < 0.5
    changes = 1 if better_in_both else 2
    factors = np.exp(rng.uniform(0.05, 0.5, (number, changes)) * rng.choice([-1, 1], (number, changes)))
    factors[0] = 1
    scores = first * factors  # [options, lengths]
    scale = min(1, LARGEST_SCORE / scores.max())
    rounded = (scores * scale).clip(0.1).round(1)
    return [data.lottery(by_length, of_both_lengths, rng) for by_length in rounded.tolist()]
