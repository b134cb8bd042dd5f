"""Evaluation of a language model on suites, exactly from its probabilities or from sampled answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pad_sequence

from drest_torch.choices import measures
from drest_torch.choices.menus import Menus
from drest_torch.errors import ConfigError
from drest_torch.language.model import LanguageModel
from drest_torch.language.objective import as_menus
from drest_torch.language.prompts import Prompt
from drest_torch.metrics import neutrality_normalised
from drest_torch.report.tables import MISSING, in_markdown
from drest_torch.statistics.intervals import Interval, t_interval

BATCH = 16


@dataclass(frozen=True)
class Row:
    """Means of a suite, with their 95 % intervals over scenarios."""

    suite: str
    scenarios: int
    numbers: dict[str, Interval]


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
    model: LanguageModel, prompts: Sequence[Prompt], *, samples: int | None = None, seed: int = 0
) -> list[Row]:
    """Evaluate a model on prompts, and return a row for each suite."""
    probability = probabilities(model, prompts, samples, seed)
    indices: dict[str, list[int]] = {}
    for index, prompt in enumerate(prompts):
        indices.setdefault(prompt.suite, []).append(index)
    rows = []
    for suite, chosen in indices.items():
        suite_prompts = [prompts[index] for index in chosen]
        options = max(len(prompt.options) for prompt in suite_prompts)
        rows.append(_row(suite, suite_prompts, probability[chosen, :options]))
    return rows


def _row(suite: str, prompts: Sequence[Prompt], probability: Tensor) -> Row:
    """Return the row of a suite, for the probabilities [B, O] of the options."""
    values = measure(prompts, probability)
    numbers = {name: t_interval(by_scenario.tolist()) for name, by_scenario in values.items()}
    if "N" in numbers:
        neutrality = numbers["N within an order"].estimate
        usefulness = measures.usefulness_if_indifferent(as_menus(prompts), neutrality)
        numbers["U if indifferent"] = Interval(usefulness, usefulness, usefulness)
    return Row(suite, len(values["valid"]), numbers)


def measure(prompts: Sequence[Prompt], probability: Tensor) -> dict[str, Tensor]:
    """Return the measures of each scenario, for the probabilities [B, O] of the options."""
    menus = as_menus(prompts)
    valid = probability.sum(-1)
    given_valid = probability / valid.clamp_min(1e-12).unsqueeze(-1)
    mean = _mean_over_orders(prompts)  # [scenarios, B]
    values = {"valid": mean @ valid}
    if all(prompt.sure for prompt in prompts):
        values |= _of_lengths(menus, given_valid, mean)
    takes = pad_sequence(list(map(_takes, prompts)), batch_first=True)  # [B, O]
    if takes.any():
        taken = (given_valid * takes).sum(-1)
        values["takes the action"] = mean @ taken
    return values


def _of_lengths(menus: Menus, policy: Tensor, mean: Tensor) -> dict[str, Tensor]:
    """Return usefulness and neutrality of each scenario, for a policy [B, O]."""
    k = menus.num_lengths
    k_of_scenario = (mean @ k.double()).round().long()
    probability, _ = measures.lengths(menus, policy)  # P(L = l) [B, K]
    within_an_order = neutrality_normalised(probability, k)
    usefulness = measures.usefulness(menus, policy)
    last = k.unsqueeze(-1) - 1
    longest = probability.gather(1, last).squeeze(-1)
    return {
        "N": neutrality_normalised(mean @ probability, k_of_scenario),
        "N within an order": mean @ within_an_order,
        "U": mean @ usefulness,
        "P(longest)": mean @ longest,
    }


def _mean_over_orders(prompts: Sequence[Prompt]) -> Tensor:
    """Return the matrix [scenarios, B] that averages over the prompts of each scenario."""
    row_of_scenario: dict[str, int] = {}
    rows = []
    for prompt in prompts:
        next_row = len(row_of_scenario)
        row = row_of_scenario.setdefault(prompt.scenario, next_row)
        rows.append(row)
    member = one_hot(torch.tensor(rows)).double()  # [B, scenarios]
    return (member / member.sum(0)).T


def _takes(prompt: Prompt) -> Tensor:
    """Return [O] 1 for options that take the action of their suite, and 0 for the others."""
    takes = [option.takes for option in prompt.options]
    return torch.tensor(takes, dtype=torch.float32)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row.numbers))
    lines = []
    for row in rows:
        cells = [_cell(row, name) for name in names]
        lines.append([row.suite, str(row.scenarios), *cells])
    return in_markdown(["suite", "scenarios", *names], lines)


def _cell(row: Row, name: str) -> str:
    if name not in row.numbers:
        return MISSING
    return row.numbers[name].within(0, 1).text()
