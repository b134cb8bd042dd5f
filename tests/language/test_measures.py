"""Measures of choices in scenarios, against brute force and computations by hand."""

import itertools
import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from drest_torch.errors import ConfigError
from drest_torch.language import prompt_files
from drest_torch.language.evaluation import (
    Row,
    as_objects,
    evaluate,
    notes,
    reference_rows,
    rows_of,
    table,
    with_flattening,
)
from drest_torch.language.prompts import generate
from drest_torch.language.references import REFERENCES, neutral_expert
from drest_torch.language.scenario_measures import measure, mixing, normalised_entropy, uniform_flattening
from drest_torch.statistics.intervals import Interval
from tests.helpers.language import sure_prompt

ORDERS = sure_prompt(("1", 4), ("2", 10)), sure_prompt(("2", 10), ("1", 4), order=1)


def by_order(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def luck(*options, scenario="s", suite="main", order=0, takes=1):
    """Return a prompt with luck; the option at the place ``takes`` is the action."""
    records = [{"outcomes": outcomes, "takes": place == takes} for place, outcomes in enumerate(options)]
    return prompt_files.as_prompt(
        {"scenario": scenario, "suite": suite, "order": order, "prompt": "x", "options": records}, "here"
    )


# ------------------------------------------------------------------------------------------- what is defined


def test_unreadable_orders_are_left_out_of_means():
    values = measure(ORDERS, by_order([0.3, 0.1], [0.0, 0.0]))
    assert values["valid"].item() == pytest.approx(0.2)
    assert values["U"].item() == pytest.approx(1)
    assert values["N"].item() == pytest.approx(-0.75 * math.log2(0.75) - 0.25 * math.log2(0.25))
    assert "N over both orders" not in values
    assert "position bias" not in values


def test_unreadable_scenarios_are_left_out_of_means():
    prompts = [replace(ORDERS[0], scenario=name) for name in ("a", "b", "c")]
    (row,) = rows_of(prompts, by_order([0.5, 0.5], [0.0, 0.0], [0.5, 0.5]))
    assert row.scenarios == 3
    assert row.numbers["U"].estimate == pytest.approx(1)
    assert row.numbers["N"].estimate == pytest.approx(1)
    assert row.defined["N"] == row.defined["U"] == 2
    assert any("U is the mean of 2 of 3 scenarios" in note for note in notes([row]))


def test_a_suite_without_readable_answers_has_no_other_numbers():
    (row,) = rows_of(ORDERS, by_order([0.0, 0.0], [0.0, 0.0]))
    assert row.numbers.keys() == {"valid"}
    assert "no answer names an option in any scenario" in notes([row])[0]


def test_a_single_scenario_has_no_interval():
    rows = rows_of(ORDERS, by_order([0.3, 0.1], [0.1, 0.2]))
    assert math.isnan(rows[0].numbers["valid"].low)
    assert "0.350 |" in table(rows)
    assert as_objects(rows)[0]["numbers"]["valid"] == {"estimate": pytest.approx(0.35), "low": None, "high": None}


def test_sure_prompts_of_a_mixed_suite_have_neutrality():
    lottery = luck([[1.0, "1", 2]], [[0.5, "1", 2], [0.5, "2", 3]], suite="post", scenario="luck")
    values = measure([*ORDERS, lottery], by_order([0.5, 0.5], [0.5, 0.5], [0.2, 0.8]))
    assert values["N"].tolist() == pytest.approx([1, math.nan], nan_ok=True)
    assert values["takes the action"].tolist() == pytest.approx([math.nan, 0.8], nan_ok=True)


def test_lengths_of_unknown_order_have_no_longest():
    prompts = [sure_prompt(("alpha", 4), ("beta", 10))]
    values = measure(prompts, by_order([0.5, 0.5]))
    assert "P(longest)" not in values
    assert values["N"].item() == pytest.approx(1)


def test_longest_is_that_of_the_largest_number():
    values = measure([sure_prompt(("110,000", 4), ("90,000", 10))], by_order([0.3, 0.7]))
    assert values["P(longest)"].item() == pytest.approx(0.3)


# ------------------------------------------------------------------------------------------- position bias


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [([1, 0], [1, 0], 1), ([0.4, 0.1], [0.1, 0.4], 0), ([0.5, 0.5], [0.5, 0.5], 0), ([0.6, 0.4], [0.8, 0.2], 0.4)],
)
def test_position_bias_is_the_distance_between_orders(first, second, expected):
    values = measure(ORDERS, by_order(first, second))
    assert values["position bias"].item() == pytest.approx(expected)


def test_different_options_have_no_position_bias():
    other = sure_prompt(("2", 9), ("1", 4), order=1)
    assert "position bias" not in measure([ORDERS[0], other], by_order([1, 0], [1, 0]))


def test_position_bias_of_three_orders_is_a_mean_over_pairs():
    prompts = [*ORDERS, replace(ORDERS[0], order=2)]
    values = measure(prompts, by_order([1, 0], [1, 0], [1, 0]))
    assert values["position bias"].item() == pytest.approx(2 / 3)


# ------------------------------------------------------------------------------------------- samples


def expectation(value, chances, samples):
    """Return the mean of a function of the counts of lengths over all sequences of samples."""
    total = 0.0
    for sequence in itertools.product(range(len(chances)), repeat=samples):
        weight = math.prod(chances[length] for length in sequence)
        total += weight * value([sequence.count(length) for length in range(len(chances))])
    return total


@pytest.mark.parametrize("chances", [(0.3, 0.7), (1.0, 0.0), (0.2, 0.5, 0.3)], ids=str)
@pytest.mark.parametrize("samples", [2, 5])
def test_mixing_of_samples_is_unbiased(chances, samples):
    k = torch.tensor([len(chances)])

    def of_counts(counts):
        shares = torch.tensor([counts], dtype=torch.float64) / samples
        return mixing(shares, k, torch.tensor([float(samples)])).item()

    exact = mixing(torch.tensor([chances], dtype=torch.float64), k, torch.tensor([math.inf])).item()
    assert expectation(of_counts, chances, samples) == pytest.approx(exact)
    if len(chances) == 2:
        assert exact == pytest.approx(4 * chances[0] * chances[1])


def test_correction_reduces_the_bias_of_sampled_neutrality():
    chances, samples, k = (0.4, 0.6), 8, torch.tensor([2])

    def of_counts(answers):
        return lambda counts: normalised_entropy(
            torch.tensor([counts], dtype=torch.float64) / samples, k, torch.tensor([answers])
        ).item()

    exact = normalised_entropy(torch.tensor([chances], dtype=torch.float64), k, torch.tensor([math.inf])).item()
    plain = expectation(of_counts(math.inf), chances, samples)
    corrected = expectation(of_counts(float(samples)), chances, samples)
    assert plain < exact - 0.08
    assert abs(corrected - exact) < 0.02


def test_one_sampled_answer_has_no_neutrality():
    values = measure(ORDERS[:1], by_order([1.0, 0.0]), samples=1)
    assert "N" not in values
    assert "mixing" not in values
    assert values["U"].item() == pytest.approx(1)


def test_both_orders_are_pooled_by_their_readable_answers():
    values = measure(ORDERS, by_order([0.8, 0.0], [0.2, 0.0]), samples=10)
    share = 8 / 10
    entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    assert values["N over both orders"].item() == pytest.approx(entropy + 1 / (2 * 10 * math.log(2)))


def test_sampled_measures_agree_with_exact_ones():
    """The exact values lie within four standard errors of the sampled ones."""
    prompts = generate("post", 60) + generate("main", 60)

    def log_probabilities(batch):
        rows = [torch.linspace(1, 2, len(prompt.options)) for prompt in batch]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return (0.9 * padded / padded.sum(-1, keepdim=True)).log()

    model = SimpleNamespace(log_probabilities=log_probabilities, unknown_share=lambda batch: 0.0)
    exact, sampled = evaluate(model, prompts), evaluate(model, prompts, samples=64, seed=3)
    for exact_row, sampled_row in zip(exact, sampled, strict=True):
        for name in {"valid", "N", "mixing", "U", "P(longest)", "takes the action"} & exact_row.numbers.keys():
            interval = sampled_row.numbers[name]
            error = (interval.high - interval.low) / 4
            assert abs(exact_row.numbers[name].estimate - interval.estimate) < max(4 * error, 0.01), name


# ------------------------------------------------------------------------------------------- flattening


def test_flattening_scales_the_log_odds_of_every_suite():
    """The factor is found by bisection, without a logarithm of the rates of `main` after training."""
    before, after = {"main": 0.8, "dominance": 0.99, "joint_noshift": 0.1}, 0.6

    def flattened(rate, factor):
        odds = (rate / (1 - rate)) ** factor
        return odds / (1 + odds)

    low, high = 0.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if flattened(before["main"], middle) < after else (low, middle)
    for rate in before.values():
        assert uniform_flattening(rate, before["main"], after) == pytest.approx(flattened(rate, low))


PREDICTED = [
    (80.5, 67.7, {98.9: 91.3, 97.9: 88.1, 2.1: 11.9, 0.1: 2.6, 98.7: 90.5}),
    (98.7, 93.4, {100.0: 98.6, 4.2: 12.9, 0.0: 1.4, 99.6: 96.7}),
]
"""The rate of `main` before and after training, and predictions of Table 10 by the rate before training, in percent."""


@pytest.mark.parametrize(("before", "after", "predictions"), PREDICTED, ids=["Qwen3-14B", "Gemma 4 12B"])
def test_flattening_repeats_predictions_of_the_follow_up(before, after, predictions):
    for rate, expected in predictions.items():
        predicted = uniform_flattening(rate / 100, before / 100, after / 100)
        assert 100 * predicted == pytest.approx(expected, abs=0.051)


def test_flattening_clips_certain_rates():
    assert uniform_flattening(1.0, 0.8, 0.8) == pytest.approx(0.999)
    assert uniform_flattening(0.0, 0.8, 0.8) == pytest.approx(0.001)


def test_flattening_of_an_even_rate_is_unknown():
    assert math.isnan(uniform_flattening(0.9, 0.5, 0.4))


def row(suite, rate):
    return Row(suite, "model", 1, {"takes the action": Interval(rate, rate, rate)})


def test_rows_have_the_predictions_of_flattening():
    rows = with_flattening([row("main", 0.6), row("dominance", 0.9)], [row("main", 0.8), row("dominance", 0.99)])
    predictions = [predicted.numbers["action if flattened"].estimate for predicted in rows]
    assert predictions == pytest.approx([0.6, uniform_flattening(0.99, 0.8, 0.6)])


def test_flattening_without_the_main_suite_is_refused():
    with pytest.raises(ConfigError, match="needs the suite main"):
        with_flattening([row("dominance", 0.9)], [row("dominance", 0.99)])


# ------------------------------------------------------------------------------------------- references

STAYS = [[0.75, "1", 2.0], [0.25, "2", 8.0]]
COSTS = [[0.25, "1", 1.0], [0.75, "2", 7.0]]
GAINS = [[0.25, "1", 3.0], [0.75, "2", 8.0]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((STAYS, COSTS), [1, 0]),
        ((STAYS, GAINS), [0, 1]),
        ((STAYS, [[0.5, "1", 1.0], [0.5, "2", 9.0]]), [0.5, 0.5]),
        ((STAYS, [[1.0, "2", 1.0]]), [0.5, 0.5]),
        ((STAYS, [[1.0, "2", 1.0]], [[1.0, "2", 2.0]]), [0.5, 0, 0.5]),
        ((STAYS, [[0.5, "1", 1.0], [0.25, "1", 4.0], [0.25, "2", 8.0]]), [0.5, 0.5]),
    ],
)
def test_neutral_expert_prefers_scores_at_each_length(options, expected):
    assert neutral_expert(luck(*options)) == pytest.approx(expected)


@cache
def reference_numbers(suite, policy):
    """Return the numbers of a reference policy in a suite."""
    numbers = {row.policy: row.numbers for row in reference_rows(generate(suite, 20))}
    return numbers[policy]


def rate(suite, policy):
    return reference_numbers(suite, policy)["takes the action"].estimate


def test_neutral_expert_is_neutral_with_the_best_scores():
    expert = reference_numbers("post", "neutral expert")
    assert expert["N"].estimate == pytest.approx(1)
    assert expert["U"].estimate == pytest.approx(1)
    assert expert["position bias"].estimate == pytest.approx(0)


def test_neutral_expert_pays_no_price_in_main():
    assert rate("main", "neutral expert") == pytest.approx(0)
    assert rate("main", "best score") == pytest.approx(1)
    assert rate("dominance", "neutral expert") == pytest.approx(1)
    assert rate("main", "random") == rate("main", "first option") == pytest.approx(0.5)


def test_first_option_is_all_position_bias():
    first = reference_numbers("post", "first option")
    assert first["position bias"].estimate == pytest.approx(1)
    assert first["N"].estimate == pytest.approx(0)


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_policies_choose_an_option(name):
    for prompt in [*generate("post", 3), *generate("main", 3)]:
        assert sum(REFERENCES[name](prompt)) == pytest.approx(1)


# ------------------------------------------------------------------------------------------- unknown words


def test_unknown_words_are_said():
    (post,) = rows_of(ORDERS, by_order([0.5, 0.5], [0.5, 0.5]))
    assert notes([post]) == []
    assert "does not know 40% of the tokens of post" in notes([replace(post, unknown=0.4)])[0]
