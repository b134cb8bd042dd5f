"""What a language model chooses, exactly from its probabilities or from sampled answers: one row for each suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pad_sequence

from drest_torch.choices import measures
from drest_torch.errors import ConfigError
from drest_torch.language.model import LanguageModel
from drest_torch.language.objective import as_menus
from drest_torch.language.prompts import Prompt
from drest_torch.metrics import neutrality_normalised
from drest_torch.report.tables import MISSING, in_markdown
from drest_torch.statistics.intervals import Interval, t_interval

AT_ONCE = 16


@dataclass(frozen=True)
class Row:
    """The numbers of a suite: means with their 95 % intervals over scenarios."""

    suite: str
    scenarios: int
    numbers: dict[str, Interval]


@torch.no_grad()
def probabilities(model: LanguageModel, prompts: Sequence[Prompt], samples: int | None = None, seed: int = 0) -> Tensor:
    """Return the probability [B, O] of each option; with ``samples``, the share of so many sampled answers."""
    parts = [model.log_probabilities(prompts[first : first + AT_ONCE]) for first in range(0, len(prompts), AT_ONCE)]
    found = pad_sequence([row for part in parts for row in part.exp()], batch_first=True).double()
    if not found.isfinite().all():
        raise ConfigError("the model gives probabilities that are no numbers; its weights are damaged")
    if samples is None:
        return found
    rest = (1 - found.sum(-1, keepdim=True)).clamp_min(0)
    rng = torch.Generator().manual_seed(seed)
    chosen = torch.multinomial(torch.cat((found, rest), 1), samples, replacement=True, generator=rng)
    return torch.stack([(chosen == option).double().mean(1) for option in range(found.shape[1])], 1)


def evaluate(
    model: LanguageModel, prompts: Sequence[Prompt], *, samples: int | None = None, seed: int = 0
) -> list[Row]:
    """Return a row for each suite of the prompts."""
    found = probabilities(model, prompts, samples, seed)
    rows = []
    for suite in dict.fromkeys(prompt.suite for prompt in prompts):
        chosen = [index for index, prompt in enumerate(prompts) if prompt.suite == suite]
        several = [prompts[index] for index in chosen]
        values = measure(several, found[chosen, : max(len(prompt.options) for prompt in several)])
        numbers = {name: t_interval(each.tolist()) for name, each in values.items()}
        if "N" in numbers:
            indifferent = measures.usefulness_if_indifferent(as_menus(several), numbers["N within an order"].estimate)
            numbers["U if indifferent"] = Interval(indifferent, indifferent, indifferent)
        rows.append(Row(suite, len(values["valid"]), numbers))
    return rows


def measure(prompts: Sequence[Prompt], found: Tensor) -> dict[str, Tensor]:
    """Return the numbers of each scenario, for the probabilities [B, O] of the options."""
    menus = as_menus(prompts)
    valid = found.sum(-1)
    given = found / valid.clamp_min(1e-12).unsqueeze(-1)
    scenarios = {name: place for place, name in enumerate(dict.fromkeys(prompt.scenario for prompt in prompts))}
    member = one_hot(torch.tensor([scenarios[prompt.scenario] for prompt in prompts])).double()
    mean = (member / member.sum(0)).T  # [scenarios, B], over the orders of a scenario's options
    values = {"valid": mean @ valid}
    if all(option.sure for prompt in prompts for option in prompt.options):
        lengths, k = measures.lengths(menus, given)[0], menus.num_lengths
        values["N"] = neutrality_normalised(mean @ lengths, (mean @ k.double()).round().long())
        values["N within an order"] = mean @ neutrality_normalised(lengths, k)
        values["U"] = mean @ measures.usefulness(menus, given)
        values["P(longest)"] = mean @ lengths.gather(1, k.unsqueeze(-1) - 1).squeeze(-1)
    takes = [torch.tensor([float(option.takes) for option in prompt.options]) for prompt in prompts]
    if any(map(torch.any, takes)):
        values["takes the action"] = mean @ (given * pad_sequence(takes, batch_first=True)).sum(-1)
    return values


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    names = list(dict.fromkeys(name for row in rows for name in row.numbers))
    cells = [
        [row.numbers[name].within(0, 1).text() if name in row.numbers else MISSING for name in names] for row in rows
    ]
    firsts = [[row.suite, str(row.scenarios)] for row in rows]
    return in_markdown(["suite", "scenarios", *names], [a + b for a, b in zip(firsts, cells, strict=True)])
