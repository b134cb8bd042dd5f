"""Evaluation of a language model on suites, exactly from its probabilities or from sampled answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from drest_torch.choices import measures
from drest_torch.errors import ConfigError
from drest_torch.language.follow_up_suites import PREFIX
from drest_torch.language.model import LanguageModel
from drest_torch.language.objective import as_menus
from drest_torch.language.prompts import Prompt
from drest_torch.language.references import NEED_OUTCOMES, REFERENCES, reference_policy
from drest_torch.language.scenario_measures import measure, uniform_flattening
from drest_torch.report.tables import MISSING, in_markdown
from drest_torch.statistics.intervals import Interval, t_interval

BATCH = 16
MAIN = "main"
"""The suite that determines the factor of uniform flattening."""
ACTION, FLATTENED = "takes the action", "action if flattened"
INDIFFERENT = "U if indifferent"
UNKNOWN = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Row:
    """Means of a policy in a suite, with their 95 % intervals over scenarios."""

    suite: str
    policy: str
    """model, or the name of a reference policy."""
    scenarios: int
    numbers: dict[str, Interval]
    """The means by measure. The ends of an interval are NaN if they are not known."""
    defined: dict[str, int] = field(default_factory=dict)
    """The number of scenarios with each measure; the others are left out of its mean."""
    unknown: float = 0.0
    """The share of the tokens of its prompts that the model does not know."""


@torch.no_grad()
def probabilities(model: LanguageModel, prompts: Sequence[Prompt], samples: int | None = None, seed: int = 0) -> Tensor:
    """Return the probability [B, O] of each option, or with ``samples`` its share of that many sampled answers."""
    rows: list[Tensor] = []
    for first in range(0, len(prompts), BATCH):
        rows += model.log_probabilities(prompts[first : first + BATCH]).exp()
    exact = pad_sequence(rows, batch_first=True).double()
    if not exact.isfinite().all():
        raise ConfigError("the model gives probabilities that are not numbers; its weights are damaged")
    if samples is None:
        return exact
    valid = exact.sum(-1, keepdim=True)
    rest = (1 - valid).clamp_min(0)
    weights = torch.cat((exact, rest), 1)  # [B, O + 1]
    rng = torch.Generator().manual_seed(seed)
    chosen = torch.multinomial(weights, samples, replacement=True, generator=rng)
    shares = []
    for option in range(exact.shape[1]):
        is_option = chosen == option
        shares.append(is_option.double().mean(1))
    return torch.stack(shares, 1)


def evaluate(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    *,
    samples: int | None = None,
    seed: int = 0,
    shares: Tensor | None = None,
) -> list[Row]:
    """Evaluate a model on prompts, and return a row for each suite.

    ``shares`` [B, O] are those of ``samples`` answers in text, by `drest_torch.language.text_samples`.
    """
    probability = probabilities(model, prompts, samples, seed) if shares is None else shares
    rows = []
    for row in rows_of(prompts, probability, samples=samples):
        suite_prompts = [prompt for prompt in prompts if prompt.suite == row.suite]
        rows.append(replace(row, unknown=model.unknown_share(suite_prompts)))
    return rows


def reference_rows(prompts: Sequence[Prompt]) -> list[Row]:
    """Return a row for each suite and each reference policy, exactly."""
    with_outcomes = [prompt for prompt in prompts if prompt.has_outcomes]
    rows = []
    for name in REFERENCES:
        suited = with_outcomes if name in NEED_OUTCOMES else prompts
        if suited:
            rows += rows_of(suited, reference_policy(name, suited), policy=name)
    return rows


def rows_of(
    prompts: Sequence[Prompt], probability: Tensor, *, policy: str = "model", samples: int | None = None
) -> list[Row]:
    """Return a row for each suite, for the probabilities [B, O] of options or their shares of samples."""
    indices: dict[str, list[int]] = {}
    for index, prompt in enumerate(prompts):
        indices.setdefault(prompt.suite, []).append(index)
    rows = []
    for suite, chosen in indices.items():
        suite_prompts = [prompts[index] for index in chosen]
        options = max(len(prompt.options) for prompt in suite_prompts)
        values = measure(suite_prompts, probability[chosen, :options], samples)
        numbers, defined = {}, {}
        for name, by_scenario in values.items():
            means = by_scenario[~by_scenario.isnan()].tolist()
            numbers[name] = interval_of(means)
            defined[name] = len(means)
        if "N" in numbers:
            usefulness = _usefulness_if_indifferent(suite_prompts, numbers["N"].estimate)
            numbers[INDIFFERENT] = Interval(usefulness, math.nan, math.nan)
        rows.append(Row(suite, policy, len(values["valid"]), numbers, defined))
    return rows


def interval_of(values: Sequence[float]) -> Interval:
    """Return the mean with its 95 % interval, whose ends are NaN for a single value."""
    interval = t_interval(values)
    if len(values) == 1:
        return Interval(interval.estimate, math.nan, math.nan)
    return interval


def _usefulness_if_indifferent(prompts: Sequence[Prompt], neutrality: float) -> float:
    """Return the usefulness of a softmax of scores with this neutrality, in prompts with sure options."""
    sure = [prompt for prompt in prompts if prompt.sure]
    return measures.usefulness_if_indifferent(as_menus(sure), min(neutrality, 1.0))


def with_flattening(rows: Sequence[Row], before: Sequence[Row]) -> list[Row]:
    """Return rows with the rate of each action that uniform flattening predicts from rows before training.

    The factor is that of the suite main, or of followup_main for the suites whose names begin with followup.
    """
    rate_before, rate_after = _rates(before), _rates(rows)
    predicted = []
    for row in rows:
        main = MAIN
        if row.suite.startswith(PREFIX):
            main = PREFIX + MAIN
        numbers = dict(row.numbers)
        if row.suite in rate_before and main in rate_before and main in rate_after:
            rate = uniform_flattening(rate_before[row.suite], rate_before[main], rate_after[main])
            numbers[FLATTENED] = Interval(rate, math.nan, math.nan)
        predicted.append(replace(row, numbers=numbers))
    if not any(FLATTENED in row.numbers for row in predicted):
        raise ConfigError(f"a prediction of uniform flattening needs the suite {MAIN}; add it to the suites")
    return predicted


def _rates(rows: Sequence[Row]) -> dict[str, float]:
    """Return the rate of the action by suite."""
    rates = {}
    for row in rows:
        if ACTION in row.numbers:
            rates[row.suite] = row.numbers[ACTION].estimate
    return rates


def as_objects(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as objects for JSON, in which unknown ends of intervals are null."""
    objects = []
    for row in rows:
        record = asdict(row)
        for interval in record["numbers"].values():
            for end, value in interval.items():
                if math.isnan(value):
                    interval[end] = None
        objects.append(record)
    return objects


# ------------------------------------------------------------------------------------------- tables


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown: a table for all suites with the same measures, the rows of a suite together."""
    rows_of_suite: dict[str, list[Row]] = {}
    for row in rows:
        rows_of_suite.setdefault(row.suite, []).append(row)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for suite_rows in rows_of_suite.values():
        measured = tuple(suite_rows[0].numbers)
        groups.setdefault(measured, []).extend(suite_rows)
    return "\n\n".join(map(_table, groups.values()))


def _table(rows: Sequence[Row]) -> str:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row.numbers))
    lines = []
    for row in rows:
        cells = [row.suite, row.policy, str(row.scenarios)]
        for name in names:
            cells.append(_cell(row, name))
        lines.append(cells)
    return in_markdown(["suite", "policy", "scenarios", *names], lines)


def _cell(row: Row, name: str) -> str:
    interval = row.numbers.get(name, UNKNOWN)
    if math.isnan(interval.estimate):
        return MISSING
    if math.isnan(interval.low):
        estimate = min(max(interval.estimate, 0), 1)
        return f"{estimate:.3f}"
    return interval.within(0, 1).text()


def notes(rows: Sequence[Row]) -> list[str]:
    """Return sentences about unknown tokens, and about scenarios that are left out of means."""
    sentences = []
    for row in rows:
        if row.unknown > 0:
            sentences.append(
                f"Warning: the model does not know {row.unknown:.0%} of the tokens of {row.suite}, so that it chooses "
                "without reading them; its numbers say little."
            )
        for name in ("N", "U", ACTION):
            defined = row.defined.get(name, 0)
            if 0 < defined < row.scenarios:
                sentences.append(
                    f"{row.suite}: {name} is the mean of {defined} of {row.scenarios} scenarios; in the others no "
                    "answer names an option, or too few do."
                )
        if row.defined.keys() == {"valid"}:
            sentences.append(f"{row.suite}: no answer names an option in any scenario, so that nothing else is known.")
    return sentences
