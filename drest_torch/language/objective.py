"""What an answer is paid, and the expected pay of a distribution over answers, from the project's own reward."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drest_torch.choices import measures
from drest_torch.choices.menus import Menus
from drest_torch.counting import alike_in_group
from drest_torch.errors import ConfigError
from drest_torch.language.prompts import LARGEST_SCORE, Prompt, as_prompt
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward

INVALID = -1.5
"""What an answer is paid that names no option."""
REWARDS = ("drest", "default", "supports")


def as_menus(prompts: Sequence[Prompt]) -> Menus:
    """Return prompts as menus of the project, whose lengths are the places of their times in order."""
    options = max(len(prompt.options) for prompt in prompts)
    outcomes = max(len(option.outcomes) for prompt in prompts for option in prompt.options)
    table = np.zeros((3, len(prompts), options, outcomes))
    for row, prompt in enumerate(prompts):
        place = {length: number for number, length in enumerate(prompt.lengths, 1)}
        for column, option in enumerate(prompt.options):
            for index, (chance, length, score) in enumerate(option.outcomes):
                table[:, row, column, index] = chance, place[length], score
    return Menus(torch.from_numpy(table[0]), torch.from_numpy(table[1]).long(), torch.from_numpy(table[2]))


def expected_pay(
    probability: Tensor, menus: Menus, reward: Reward, kind: str, *, credit: str = "mini", invalid: float = INVALID
) -> Tensor:
    """Return the expected pay [B] of an answer, for the probabilities [B, O] of the options; the rest is invalid.

    A meta-episode is E answers to a prompt, in random order. ``supports`` is DReST between sets of lengths and
    Neutrality+ within one. ``credit`` says what gradients take for constant. mini: the discounts, as in an update of
    one mini-episode at a time. meta: nothing. rloo: its gradient is the mean of REINFORCE's with the mean of the E − 1
    other answers as the baseline. As an answer changes their discounts, that is (E · mini − meta) ÷ (E − 1).
    """
    episodes = reward.episodes_per_meta
    wrong = invalid * (1 - probability.sum(-1))
    if kind == "default":
        return (probability * menus.gain.sum(-1).to(probability.dtype)).sum(-1) / LARGEST_SCORE + wrong
    value = measures.supports_value if kind == "supports" else measures.drest_value

    def paid(credit: str) -> Tensor:
        return value(menus, probability, episodes, reward.lam, credit=credit) / episodes + wrong

    return paid(credit) if credit != "rloo" else (episodes * paid("mini") - paid("meta")) / (episodes - 1)


def group_pay(chosen: Tensor, menus: Menus, reward: Reward, invalid: float = INVALID) -> Tensor:
    """Return the pay [B, E] of sampled answers to B prompts, each sure of its length; −1 names no option."""
    most, group = menus.lengths.shape[1], reward.episodes_per_meta
    names_one, place = chosen >= 0, chosen.clamp_min(0)
    if reward.divide_by_best:
        worth = share_of_best(menus.gain, menus.best.unsqueeze(1))
    else:
        worth = menus.gain / LARGEST_SCORE
    length = menus.probability.argmax(-1).gather(1, place)  # [B, E]
    alike = alike_in_group(torch.where(names_one, length, -1), most)
    discounts = reward.group_discounts(most, group)
    discount = discounts[menus.num_lengths.unsqueeze(-1), (alike - 1).clamp_min(0)]
    return torch.where(names_one, discount * worth.sum(-1).float().gather(1, place), invalid)


def sampled_gain(
    log_probability: Tensor, menus: Menus, reward: Reward, rng: torch.Generator, invalid: float = INVALID
) -> Tensor:
    """Return a sum [] whose gradient is that of REINFORCE with the mean of the other answers of a prompt as baseline.

    ``log_probability`` [B, O] is that of the options; E answers are sampled for each prompt.
    """
    rest = (1 - log_probability.exp().sum(-1, keepdim=True)).clamp_min(1e-9)
    every = torch.cat((log_probability, rest.log()), 1)
    places = torch.multinomial(every.detach().exp(), reward.episodes_per_meta, replacement=True, generator=rng)
    pay = group_pay(torch.where(places < log_probability.shape[1], places, -1), menus, reward, invalid)
    baseline = (pay.sum(1, keepdim=True) - pay) / (pay.shape[1] - 1)
    return (every.gather(1, places) * (pay - baseline)).mean(1).sum()


class DReSTGroupReward:
    """The DReST reward as TRL's ``reward_funcs`` wants it: one prompt's ``num_generations`` answers are a meta-episode.

    The data set needs a column ``options``: for each prompt, a list of objects with label, length and score. An answer
    names an option by its label, alone or at the start of its last line. Works with `RLOOTrainer` and `GRPOTrainer`.
    """

    __name__ = "drest"

    def __init__(self, num_generations: int, lam: float = 0.9, *, invalid: float = INVALID) -> None:
        if num_generations < 2:
            raise ConfigError(f"num_generations={num_generations}; expected at least 2 answers of each prompt")
        self.reward, self.invalid = Reward(lam, episodes_per_meta=num_generations, counting="averaged"), invalid

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], options: Sequence[Any], **others: Any
    ) -> list[float]:
        """Return the pay of each answer."""
        group = self.reward.episodes_per_meta
        if len(completions) % group:
            raise ConfigError(
                f"{len(completions)} answers are no whole groups of {group}; set num_generations={group} in the "
                "trainer, and a multiple of it as the batch (per_device_train_batch_size × gradient_accumulation_steps)"
            )
        if any(prompts[index] != prompts[index - index % group] for index in range(len(prompts))):
            raise ConfigError(
                f"a group of {group} answers has different prompts; set num_generations={group} in the trainer"
            )
        asked = [as_prompt({"options": each, "prompt": ""}, "options") for each in options[::group]]
        labels = [[option.label for option in prompt.options] for prompt in asked for _ in range(group)]
        named = [answer(*each) for each in zip(completions, labels, strict=True)]
        chosen = torch.tensor([-1 if place is None else place for place in named]).reshape(-1, group)
        return [float(pay) for pay in group_pay(chosen, as_menus(asked), self.reward, self.invalid).flatten()]


def answer(completion: Any, labels: Sequence[str]) -> int | None:
    """Return which option an answer names, a text or a list of messages; None if none."""
    text = completion if isinstance(completion, str) else str(completion[-1]["content"])
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    found = [place for place, label in enumerate(labels) if re.match(rf"\W*{re.escape(label)}(?!\w)", last)]
    return found[0] if len(found) == 1 else None
