"""The pay of an answer under the DReST reward, and the expected pay of a distribution over answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drest_torch.choices import measures
from drest_torch.choices.menus import Menus
from drest_torch.counting import same_length_in_group
from drest_torch.errors import ConfigError
from drest_torch.language.offers import LARGEST_SCORE
from drest_torch.language.prompt_files import as_prompt
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
    """Return the pay [B, E] of sampled answers to B prompts with sure options; −1 names no option."""
    most, group = menus.lengths.shape[1], reward.episodes_per_meta
    is_valid = chosen >= 0
    option = chosen.clamp_min(0)
    if reward.divide_by_best:
        worth = share_of_best(menus.gain, menus.best.unsqueeze(1))
    else:
        worth = menus.gain / LARGEST_SCORE
    worth_of_option = worth.sum(-1).float()  # [B, O]
    length_of_option = menus.probability.argmax(-1)
    length = length_of_option.gather(1, option)  # [B, E]
    alike = same_length_in_group(torch.where(is_valid, length, -1), most)
    others = (alike - 1).clamp_min(0)
    discounts = reward.group_discounts(most, group)  # by k and the number of others of the same length
    discount = discounts[menus.num_lengths.unsqueeze(-1), others]
    preliminary = worth_of_option.gather(1, option)
    return torch.where(is_valid, discount * preliminary, invalid)


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


class DReSTGroupReward:
    """The DReST reward as a function for TRL's ``reward_funcs``; a prompt's generations are a meta-episode.

    The data set needs a column ``options``: for each prompt, a list of objects with label, length and score. An answer
    names an option by its label, alone or at the start of its last line. Works with `RLOOTrainer` and `GRPOTrainer`.
    """

    __name__ = "drest"

    def __init__(self, num_generations: int, lam: float = 0.9, *, invalid: float = INVALID) -> None:
        if num_generations < 2:
            raise ConfigError(f"num_generations={num_generations}; expected at least 2 answers of each prompt")
        self.reward = Reward(lam, episodes_per_meta=num_generations, counting="averaged")
        self.invalid = invalid

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], options: Sequence[Any], **others: Any
    ) -> list[float]:
        """Return the pay of each answer."""
        group = self.reward.episodes_per_meta
        if len(completions) % group:
            raise ConfigError(
                f"{len(completions)} answers are not whole groups of {group}; set num_generations={group} in the "
                "trainer, and a multiple of it as the batch (per_device_train_batch_size × gradient_accumulation_steps)"
            )
        for first in range(0, len(prompts), group):
            if any(prompt != prompts[first] for prompt in prompts[first : first + group]):
                raise ConfigError(
                    f"a group of {group} answers has different prompts; set num_generations={group} in the trainer"
                )
        group_prompts = []
        for group_options in options[::group]:
            record = {"options": group_options, "prompt": ""}
            group_prompts.append(as_prompt(record, "options"))
        chosen = []
        for index, completion in enumerate(completions):
            labels = [option.label for option in group_prompts[index // group].options]
            option = answer(completion, labels)
            chosen.append(-1 if option is None else option)
        by_prompt = torch.tensor(chosen).reshape(-1, group)
        pay = group_pay(by_prompt, as_menus(group_prompts), self.reward, self.invalid)
        return pay.flatten().tolist()


def answer(completion: Any, labels: Sequence[str]) -> int | None:
    """Return the index of the option that an answer, a text or a list of messages, names; None if it names none."""
    text = completion
    if not isinstance(completion, str):
        text = str(completion[-1]["content"])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    named = []
    for index, label in enumerate(labels):
        if re.match(rf"\W*{re.escape(label)}(?!\w)", lines[-1]):
            named.append(index)
    if len(named) != 1:
        return None
    return named[0]
