"""What a language model chooses, exactly from its probabilities or from sampled answers: one row for each suite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drest_torch.choices import measures
from drest_torch.choices.menus import Menus
from drest_torch.language.model import LanguageModel
from drest_torch.language.objective import as_menus
from drest_torch.language.prompts import Prompt
from drest_torch.metrics import neutrality_normalised
from drest_torch.statistics.intervals import t_interval

AT_ONCE = 16
HALVINGS = 60


@dataclass(frozen=True)
class Row:
    """The numbers of a suite, each with its 95 % interval over scenarios: (mean, low, high)."""

    suite: str
    scenarios: int
    numbers: dict[str, tuple[float, float, float]]


@torch.no_grad()
def probabilities(model: LanguageModel, prompts: Sequence[Prompt], samples: int | None = None, seed: int = 0) -> Tensor:
    """Return the probability [B, O] of each option; with ``samples``, the share of so many sampled answers."""
    parts = [
        model.log_probabilities(prompts[first : first + AT_ONCE]).exp() for first in range(0, len(prompts), AT_ONCE)
    ]
    most = max(part.shape[1] for part in parts)
    found = torch.cat([torch.nn.functional.pad(part, (0, most - part.shape[1])) for part in parts]).double()
    if samples is None:
        return found
    rest = (1 - found.sum(-1, keepdim=True)).clamp_min(0)
    rng = torch.Generator().manual_seed(seed)
    chosen = torch.multinomial(torch.cat((found, rest), 1), samples, replacement=True, generator=rng)
    return torch.stack([(chosen == option).double().mean(1) for option in range(most)], 1)


def evaluate(
    model: LanguageModel, prompts: Sequence[Prompt], *, samples: int | None = None, seed: int = 0
) -> list[Row]:
    """Return a row for each suite of the prompts."""
    suites: dict[str, list[int]] = defaultdict(list)
    for index, prompt in enumerate(prompts):
        suites[prompt.suite].append(index)
    found = probabilities(model, prompts, samples, seed)
    return [_row(suite, [prompts[index] for index in chosen], found[chosen]) for suite, chosen in suites.items()]


def _row(suite: str, prompts: list[Prompt], found: Tensor) -> Row:
    menus = as_menus(prompts)
    found = found[:, : menus.exists.shape[1]]
    valid = found.sum(-1)
    given = torch.where(valid.unsqueeze(-1) > 0, found / valid.clamp_min(1e-12).unsqueeze(-1), 0)
    scenarios: dict[str, list[int]] = defaultdict(list)
    for index, prompt in enumerate(prompts):
        scenarios[prompt.scenario].append(index)
    values: dict[str, list[float]] = defaultdict(list)
    longer, useful = measures.lengths(menus, given)[0], measures.usefulness(menus, given)
    within = neutrality_normalised(longer, menus.num_lengths)
    takes = torch.zeros_like(given)
    for index, prompt in enumerate(prompts):
        takes[index, : len(prompt.options)] = torch.tensor([float(option.takes) for option in prompt.options])
    sure = all(option.sure for prompt in prompts for option in prompt.options)
    for members in scenarios.values():
        values["valid"].append(valid[members].mean().item())
        if sure:
            mean, k = longer[members].mean(0), menus.num_lengths[members[0]]
            values["N"].append(neutrality_normalised(mean, k).item())
            values["N within an order"].append(within[members].mean().item())
            values["U"].append(useful[members].mean().item())
            values["P(longest)"].append(mean[k - 1].item())
        if takes[members].any():
            values["takes the action"].append((given * takes)[members].sum(-1).mean().item())
    numbers = {}
    for name, sample in values.items():
        interval = t_interval(sample)
        numbers[name] = interval.estimate, interval.low, interval.high
    if sure:
        value = usefulness_of_indifference(menus, numbers["N within an order"][0])
        numbers["U if indifferent"] = value, value, value
    return Row(suite, len(scenarios), numbers)


def usefulness_of_indifference(menus: Menus, neutrality: float) -> float:
    """Return U of a softmax of scores whose temperature gives it this neutrality: it flattens every choice alike.

    A model with a larger U is neutral between lengths, and not merely indifferent.
    """
    scores = torch.where(menus.exists, menus.gain.sum(-1), -torch.inf)
    low, high = -12.0, 12.0
    for _ in range(HALVINGS):
        chosen = (scores / np.exp((low + high) / 2)).softmax(-1)
        spread = measures.neutrality(menus, chosen).mean().item()
        low, high = ((low + high) / 2, high) if spread < neutrality else (low, (low + high) / 2)
    return measures.usefulness(menus, chosen).mean().item()


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    names = list(dict.fromkeys(name for row in rows for name in row.numbers))
    lines = [f"| suite | scenarios | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for row in rows:
        cells = [_cell(row.numbers.get(name)) for name in names]
        lines.append(f"| {row.suite} | {row.scenarios} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(number: tuple[float, float, float] | None) -> str:
    if number is None:
        return "–"
    mean, low, high = number
    return f"{mean:.3f}" if low == high else f"{mean:.3f} ({max(low, 0):.3f}–{min(high, 1):.3f})"


def record(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows for JSON."""
    return [{"suite": row.suite, "scenarios": row.scenarios, **row.numbers} for row in rows]
