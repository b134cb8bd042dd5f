"""The pay of an answer under the DReST reward, and the expected pay of a distribution over answers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from drest_torch.choices import measures
from drest_torch.choices.menus import Menus
from drest_torch.counting import same_length_in_group
from drest_torch.errors import ConfigError
from drest_torch.language.offers import LARGEST_SCORE
from drest_torch.language.prompts import Prompt
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward

INVALID = -1.5
"""The pay of an answer that names no option."""
REWARDS = ("drest", "default", "supports")


def as_menus(prompts: Sequence[Prompt]) -> Menus:
    """Return prompts as menus, with the ranks of their times as lengths."""
    for prompt in prompts:
        if not prompt.has_outcomes:
            raise ConfigError(
                f"{prompt.scenario}: its options have no lengths and scores, so it can be evaluated, but not paid for"
            )
    most_options = max(len(prompt.options) for prompt in prompts)
    most_outcomes = max(prompt.most_outcomes for prompt in prompts)
    shape = (len(prompts), most_options, most_outcomes)
    chances = np.zeros(shape)
    lengths = np.zeros(shape, dtype=np.int64)
    scores = np.zeros(shape)
    for row, prompt in enumerate(prompts):
        number_of_length = {length: number for number, length in enumerate(prompt.lengths, 1)}
        for column, option in enumerate(prompt.options):
            for index, outcome in enumerate(option.outcomes):
                place = row, column, index
                chance, length, score = outcome
                chances[place] = chance
                lengths[place] = number_of_length[length]
                scores[place] = score
    return Menus(torch.from_numpy(chances), torch.from_numpy(lengths), torch.from_numpy(scores))


def expected_pay(
    probability: Tensor, menus: Menus, reward: Reward, kind: str, *, credit: str = "mini", invalid: float = INVALID
) -> Tensor:
    """Return the expected pay [B] of an answer, for the probabilities [B, O] of the options; the rest is invalid.

    A meta-episode is E answers to a prompt, in random order. ``supports`` is DReST between sets of lengths and
    Neutrality+ within one. ``credit`` determines the gradient. With mini the discounts are constants, as in an update
    of one mini-episode at a time; with meta nothing is. With rloo it is the expected gradient of REINFORCE, with the
    mean of the E − 1 other answers as the baseline. An answer changes their discounts, so this is (E · mini − meta) ÷
    (E − 1).
    """
    invalid_pay = invalid * (1 - probability.sum(-1))
    if kind == "default":
        scores = menus.gain.sum(-1).to(probability.dtype)
        return (probability * scores).sum(-1) / LARGEST_SCORE + invalid_pay
    episodes = reward.episodes_per_meta
    value = measures.drest_value
    if kind == "supports":
        value = measures.supports_value

    def pay(credit: str) -> Tensor:
        of_the_meta_episode = value(menus, probability, episodes, reward.lam, credit=credit)
        return of_the_meta_episode / episodes + invalid_pay

    if credit == "rloo":
        return (episodes * pay("mini") - pay("meta")) / (episodes - 1)
    return pay(credit)


def group_pay(chosen: Tensor, menus: Menus, reward: Reward, invalid: float = INVALID) -> Tensor:
    """Return the pay [B, E] of sampled answers to B prompts; −1 names no option.

    The outcomes of lotteries are independent, and each answer is paid the expectation over all of them. The mean over
    sampled answers is therefore `expected_pay`.
    """
    most, group = menus.lengths.shape[1], reward.episodes_per_meta
    is_valid = chosen >= 0
    option = chosen.clamp_min(0)
    if reward.divide_by_best:
        worth = share_of_best(menus.gain, menus.best.unsqueeze(1))
    else:
        worth = menus.gain / LARGEST_SCORE
    discounts = reward.group_discounts(most, group)  # by k and the number of others of the same length
    if (menus.probability > 0).sum(-1).max() > 1:
        pay_of_option = _lottery_pay(chosen, menus, worth, discounts)  # [B, O]
        return torch.where(is_valid, pay_of_option.gather(1, option), invalid)
    worth_of_option = worth.sum(-1).float()  # [B, O]
    length_of_option = menus.probability.argmax(-1)
    length = length_of_option.gather(1, option)  # [B, E]
    alike = same_length_in_group(torch.where(is_valid, length, -1), most)
    others = (alike - 1).clamp_min(0)
    discount = discounts[menus.num_lengths.unsqueeze(-1), others]
    preliminary = worth_of_option.gather(1, option)
    return torch.where(is_valid, discount * preliminary, invalid)


def _lottery_pay(chosen: Tensor, menus: Menus, worth: Tensor, discounts: Tensor) -> Tensor:
    """Return the expected pay [B, O] of an answer that names an option, given the group's other answers.

    It is Σ_l worth(o, l) · E[d(n)], with n the number of others of length l. ``worth`` [B, O, K] contains the chances.
    """
    others = _others_of_length(chosen, menus.probability)  # [B, O, K, E]
    discounts_of_prompt = discounts[menus.num_lengths].double()  # [B, E]
    discount = torch.einsum("boke,be->bok", others, discounts_of_prompt)
    return (worth * discount).sum(-1).float()


def _others_of_length(chosen: Tensor, chances: Tensor) -> Tensor:
    """Return the distribution [B, O, K, E] of the number of a group's other answers that have each length.

    The other answers are those besides the first one that names the option. For options that no answer names, the
    result has no meaning.
    """
    prompts, options, lengths = chances.shape
    answers = chosen.shape[1]
    names = chosen.unsqueeze(-1) == torch.arange(options)  # [B, E, O]
    is_first = names & (names.cumsum(1) == 1)
    chance_of_answer = names.double() @ chances.double()  # [B, E, K]
    number = torch.zeros(prompts, options, lengths, answers, dtype=torch.float64)
    number[..., 0] = 1
    for answer in range(answers):
        counts = ~is_first[:, answer]  # [B, O]
        chance = counts.unsqueeze(-1) * chance_of_answer[:, answer].unsqueeze(1)  # [B, O, K]
        chance = chance.unsqueeze(-1)
        larger = pad(number[..., :-1], (1, 0))
        number = (1 - chance) * number + chance * larger
    return number


def sampled_gain(
    log_probability: Tensor, menus: Menus, reward: Reward, rng: torch.Generator, invalid: float = INVALID
) -> Tensor:
    """Return a scalar whose gradient is that of REINFORCE, with the mean of a prompt's other answers as the baseline.

    ``log_probability`` [B, O] is that of the options; E answers are sampled for each prompt.
    """
    options = log_probability.shape[1]
    answers = reward.episodes_per_meta
    valid = log_probability.exp().sum(-1, keepdim=True)
    rest = (1 - valid).clamp_min(1e-9)
    with_rest = torch.cat((log_probability, rest.log()), 1)  # [B, O + 1]
    weights = with_rest.detach().exp()
    sampled = torch.multinomial(weights, answers, replacement=True, generator=rng)  # [B, E]
    chosen = torch.where(sampled < options, sampled, -1)
    pay = group_pay(chosen, menus, reward, invalid)
    pay_of_others = pay.sum(1, keepdim=True) - pay
    baseline = pay_of_others / (answers - 1)
    log_chosen = with_rest.gather(1, sampled)
    gains = log_chosen * (pay - baseline)  # [B, E]
    return gains.mean(1).sum()


def __getattr__(name: str) -> Any:
    """Return `DReSTGroupReward`, which was in this module before it had one of its own."""
    if name != "DReSTGroupReward":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("drest_torch.language.group_reward").DReSTGroupReward
