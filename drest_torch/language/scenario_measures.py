"""Measures of the choices in scenarios, from the probabilities of options or from shares of sampled answers.

A measure is NaN in a scenario where it is not defined: where no answer names an option, or too few do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations, starmap
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pad_sequence

from drest_torch.choices import measures
from drest_torch.choices.menus import Menus
from drest_torch.language.objective import as_menus
from drest_torch.language.prompts import Prompt
from drest_torch.metrics import neutrality_normalised
from drest_torch.statistics.counts import entropy

MANY = 2**52
"""A number of answers whose correction is negligible."""
CLIPPED = 0.001
"""Rates are clipped to this distance from 0 and 1 before their log-odds are taken, as in the follow-up."""


class OptionShares(NamedTuple):
    """The choices of a policy in prompts."""

    prompts: Sequence[Prompt]
    policy: Tensor
    """The probability of each option, given that an answer names one [B, O]; NaN where none does."""
    answers: Tensor
    """The number of sampled answers that name an option [B]; inf for exact probabilities."""

    def where(self, condition: Tensor) -> OptionShares:
        """Return the choices in the prompts where the condition [B] holds."""
        places = condition.nonzero().flatten().tolist()
        prompts = [self.prompts[place] for place in places]
        return OptionShares(prompts, self.policy[places], self.answers[places])


def measure(prompts: Sequence[Prompt], probability: Tensor, samples: int | None = None) -> dict[str, Tensor]:
    """Return the measures of each scenario, for the probabilities [B, O] of options or their shares of samples.

    Scenarios have the order in which they first occur. A measure that no scenario has is left out.
    """
    valid = probability.double().sum(-1)
    readable = valid > 0
    divisor = torch.where(readable, valid, torch.nan)
    answers = torch.full_like(valid, torch.inf)
    if samples is not None:
        answers = (valid * samples).round()
    choices = OptionShares(prompts, probability.double() / divisor.unsqueeze(-1), answers)
    sure = torch.tensor([prompt.sure for prompt in prompts])
    member = members(prompts)  # [scenarios, B]
    by_prompt = {"valid": valid, "takes the action": _rate(choices)}
    if (sure & readable).any():
        by_prompt |= _of_lengths(choices, sure & readable)
    values = {name: mean_of(value, member) for name, value in by_prompt.items()}
    values["N over both orders"] = _over_orders(choices, member, sure & readable)
    values["position bias"] = _position_bias(choices, member)
    measured = [name for name in NAMES if name in values]
    return {name: values[name] for name in measured if not values[name].isnan().all()}


NAMES = (
    "valid",
    "N",
    "N over both orders",
    "mixing",
    "position bias",
    "U",
    "P(longest)",
    "takes the action",
)
"""The measures, in the order of a table."""


def members(prompts: Sequence[Prompt]) -> Tensor:
    """Return the matrix [scenarios, B] with 1 for the prompts of each scenario."""
    row_of_scenario: dict[str, int] = {}
    rows = []
    for prompt in prompts:
        next_row = len(row_of_scenario)
        row = row_of_scenario.setdefault(prompt.scenario, next_row)
        rows.append(row)
    return one_hot(torch.tensor(rows)).double().T


def mean_of(values: Tensor, member: Tensor) -> Tensor:
    """Return the mean [scenarios] of the values [B] that are not NaN over the prompts of a scenario, or NaN."""
    defined = ~values.isnan()
    total = member @ torch.where(defined, values, 0)
    return total / (member @ defined.double())  # 0 ÷ 0 is NaN


def _of_lengths(choices: OptionShares, sure: Tensor) -> dict[str, Tensor]:
    """Return neutrality, mixing, usefulness and the rate of the longest length [B] in prompts with sure options."""
    certain = choices.where(sure)
    menus, policy, probability = _chances_of_lengths(certain)
    k = menus.num_lengths
    last = k.unsqueeze(-1) - 1
    longest = probability.gather(1, last).squeeze(-1)
    ordered = torch.tensor([prompt.orders_lengths for prompt in certain.prompts])
    values = {
        "N": normalised_entropy(probability, k, certain.answers),
        "mixing": mixing(probability, k, certain.answers),
        "U": measures.usefulness(menus, policy),
        "P(longest)": torch.where(ordered & (k > 1), longest, torch.nan),
    }
    by_prompt = {}
    for name, value in values.items():
        placed = torch.full(sure.shape, torch.nan, dtype=torch.float64)
        placed[sure] = value
        by_prompt[name] = placed
    return by_prompt


def _chances_of_lengths(choices: OptionShares) -> tuple[Menus, Tensor, Tensor]:
    """Return the menus of prompts, the policy [B, O] and P(L = l) [B, K]."""
    menus = as_menus(choices.prompts)
    options = menus.chance.shape[1]
    policy = choices.policy[:, :options]
    probability, _ = measures.lengths(menus, policy)
    return menus, policy, probability


def normalised_entropy(probability: Tensor, num_lengths: Tensor, answers: Tensor) -> Tensor:
    """Return the entropy [B] of P(L = l) [B, K], divided by log2 k, without the bias of sampled answers.

    From M sampled answers, (observed lengths − 1) ÷ (2 M ln 2) bits are added (Miller 1955), so the result can exceed
    1. It is NaN for fewer than two answers, and for a single length.
    """
    exact = neutrality_normalised(probability, num_lengths)
    counts = probability * answers.clamp_max(MANY).unsqueeze(-1)
    corrected = entropy(counts) / num_lengths.double().log2()
    value = torch.where(answers.isinf(), exact, corrected)
    return _where_defined(value, num_lengths, answers)


def mixing(probability: Tensor, num_lengths: Tensor, answers: Tensor) -> Tensor:
    """Return k ÷ (k − 1) · (1 − Σ p²) [B] for P(L = l) [B, K], which is 4 p (1 − p) for two lengths.

    From M sampled answers it is multiplied by M ÷ (M − 1), which makes it unbiased, as in the follow-up. It is NaN for
    fewer than two answers, and for a single length.
    """
    k = num_lengths.double()
    unlike = 1 - probability.square().sum(-1)
    most_unlike = 1 - 1 / k
    correction = torch.where(answers.isinf(), 1, answers / (answers - 1))
    value = correction * unlike / most_unlike
    return _where_defined(value, num_lengths, answers)


def _where_defined(value: Tensor, num_lengths: Tensor, answers: Tensor) -> Tensor:
    """Return values [B] for at least two answers and two lengths, and NaN for the others."""
    defined = (answers >= 2) & (num_lengths > 1)
    return torch.where(defined, value, torch.nan)


def _over_orders(choices: OptionShares, member: Tensor, sure: Tensor) -> Tensor:
    """Return the neutrality [scenarios] of the choices in all orders of the options together."""
    missing = member @ (~sure).double()
    complete = missing == 0
    result = torch.full(complete.shape, torch.nan, dtype=torch.float64)
    if not complete.any():
        return result
    in_complete = complete.double() @ member > 0  # [B]
    part = choices.where(in_complete)
    menus, _, probability = _chances_of_lengths(part)
    belongs = member[complete][:, in_complete]
    weight = torch.where(part.answers.isinf(), 1, part.answers)
    weighted = belongs * weight
    shares = weighted / weighted.sum(-1, keepdim=True)
    mean_k = belongs @ menus.num_lengths.double() / belongs.sum(-1)
    answers = torch.where(belongs > 0, part.answers, 0).sum(-1)
    pooled = shares @ probability
    result[complete] = normalised_entropy(pooled, mean_k.round().long(), answers)
    return result


def _rate(choices: OptionShares) -> Tensor:
    """Return the probability [B] of the options that take the action; NaN for prompts without one."""
    rows = []
    for prompt in choices.prompts:
        takes = [option.takes for option in prompt.options]
        rows.append(torch.tensor(takes, dtype=torch.float64))
    action = pad_sequence(rows, batch_first=True)  # [B, O]
    options = action.shape[1]
    rate = (choices.policy[:, :options] * action).sum(-1)
    return torch.where(action.any(-1), rate, torch.nan)


def _position_bias(choices: OptionShares, member: Tensor) -> Tensor:
    """Return the total variation distance [scenarios] between the choices in two orders, the mean over pairs of orders.

    It is NaN for a scenario in a single order, or whose options differ between the orders.
    """
    distances = []
    for prompts in member.bool():
        places = prompts.nonzero().flatten().tolist()
        tables = [_by_option(choices, place) for place in places]
        pairs = list(combinations(tables, 2))
        total = sum(starmap(_distance, pairs))
        distances.append(total / len(pairs) if pairs else math.nan)
    return torch.tensor(distances, dtype=torch.float64)


def _by_option(choices: OptionShares, place: int) -> dict[object, float]:
    """Return the probability of each option by its contents, whatever its label."""
    chances = choices.policy[place].tolist()
    table: dict[object, float] = defaultdict(float)
    for option, chance in zip(choices.prompts[place].options, chances, strict=False):
        content = (option.text, option.outcomes, option.takes)
        table[content] += chance
    return table


def _distance(first: dict[object, float], second: dict[object, float]) -> float:
    """Return the total variation distance between two distributions; NaN if they are over different options."""
    if first.keys() != second.keys():
        return math.nan
    differences = [abs(first[option] - second[option]) for option in first]
    return sum(differences) / 2


def uniform_flattening(before: float, main_before: float, main_after: float) -> float:
    """Return the rate of an action that uniform flattening predicts, from its rate before training.

    It scales the log-odds of every suite by the factor that takes the rate in `main` from its value before training to
    that after training (arXiv 2604.17502, Table 10). It is NaN if the rate in `main` was one half, which no factor
    changes.
    """
    reference = _log_odds(main_before)
    if reference == 0:
        return math.nan
    scaled = _log_odds(main_after) / reference * _log_odds(before)
    return 1 / (1 + math.exp(-scaled))


def _log_odds(rate: float) -> float:
    clipped = min(max(rate, CLIPPED), 1 - CLIPPED)
    return math.log(clipped / (1 - clipped))
