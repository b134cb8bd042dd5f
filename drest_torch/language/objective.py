"""What an answer is paid, and the expected pay of a distribution over answers, from the project's own reward."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drest_torch.errors import ConfigError
from drest_torch.language.prompts import LARGEST_SCORE, Prompt
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward, alike_in_group

INVALID = -1.5
"""What an answer is paid that names no option."""


@dataclass(frozen=True)
class Answers:
    """The answers [B, O] of prompts whose options are sure of their length."""

    column: Tensor
    """Which of its prompt's lengths each answer has."""
    share: Tensor
    """Its score ÷ the best score of its length."""
    score: Tensor
    """Its score ÷ 10: what it is paid by a reward that is not divided by the best."""
    num_lengths: Tensor
    """[B] k"""

    @classmethod
    def of(cls, prompts: Sequence[Prompt]) -> Answers:
        """Return the answers of prompts; lotteries are refused."""
        most = max(len(prompt.options) for prompt in prompts)
        shape = len(prompts), most
        column, share, score = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape), torch.zeros(shape)
        for row, prompt in enumerate(prompts):
            if not all(option.sure for option in prompt.options):
                raise ConfigError(
                    f"{prompt.scenario}: an option with several lengths; a reward needs one for each option"
                )
            lengths = prompt.lengths
            best = torch.zeros(len(lengths))
            for place, option in enumerate(prompt.options):
                column[row, place] = lengths.index(option.length)
                best[column[row, place]] = max(float(best[column[row, place]]), option.score)
            scores = torch.tensor([option.score for option in prompt.options])
            here = column[row, : len(scores)]
            share[row, : len(scores)] = share_of_best(scores, best[here])
            score[row, : len(scores)] = scores / LARGEST_SCORE
        return cls(column, share, score, torch.tensor([len(prompt.lengths) for prompt in prompts]))

    def worth(self, reward: Reward) -> Tensor:
        """Return what each answer is paid before its discount."""
        return self.share if reward.divide_by_best else self.score

    def by_length(self, probability: Tensor) -> Tensor:
        """Return P(L = l) [B, K] of answers with these probabilities [B, O]."""
        none = probability.new_zeros(len(probability), int(self.num_lengths.max()))
        return none.scatter_add(1, self.column, probability)


def expected_pay(
    probability: Tensor, answers: Answers, reward: Reward, *, credit: str = "mini", invalid: float = INVALID
) -> Tensor:
    """Return the expected pay [B] of an answer, for the probabilities [B, O] of the options; the rest is invalid.

    A meta-episode is E answers to a prompt, in random order. ``credit`` says what gradients take for constant.

    mini: the discounts, as in an update of one mini-episode at a time. meta: nothing. rloo: the mean gradient of
    REINFORCE with the mean of the E − 1 other answers as its baseline. That baseline depends on an answer through
    their discounts, which a constant would not: what is learnt is (E · mini − meta) ÷ (E − 1).
    """
    episodes = reward.episodes_per_meta
    chances = answers.by_length(probability)
    discount = reward.expected_discount(chances, answers.num_lengths.unsqueeze(-1)) / episodes
    own = discount.gather(1, answers.column)
    wrong = invalid * (1 - probability.sum(-1))

    def paid(factor: Tensor) -> Tensor:
        return (probability * answers.worth(reward) * factor).sum(-1) + wrong

    if credit == "mini":
        return paid(own.detach())
    if credit == "meta":
        return paid(own)
    return (episodes * paid(own.detach()) - paid(own)) / (episodes - 1)


def group_pay(column: Tensor, share: Tensor, num_lengths: Tensor, reward: Reward, invalid: float = INVALID) -> Tensor:
    """Return the pay [B · E] of sampled answers, E of them for each of B prompts; column −1 is an invalid answer."""
    group = reward.episodes_per_meta
    table = reward.group_discounts(int(num_lengths.max()), group)
    alike = alike_in_group(
        column.clamp_min(0) + (column < 0) * int(num_lengths.max()), int(num_lengths.max()) + 1, group
    )
    discount = table[num_lengths.repeat_interleave(group), alike - 1]
    return torch.where(column < 0, invalid, discount * share)


def sampled_gain(
    log_probability: Tensor, answers: Answers, reward: Reward, rng: torch.Generator, invalid: float = INVALID
) -> Tensor:
    """Return a sum [] whose gradient is that of REINFORCE with the mean of the other answers of a prompt as baseline.

    ``log_probability`` [B, O] is that of the options; E answers are sampled for each prompt.
    """
    probability = log_probability.exp()
    rest = (1 - probability.sum(-1, keepdim=True)).clamp_min(1e-9)
    every = torch.cat((log_probability, rest.log()), 1)
    chosen = torch.multinomial(every.detach().exp(), reward.episodes_per_meta, replacement=True, generator=rng)
    padded = torch.cat((answers.column, torch.full_like(answers.column[:, :1], -1)), 1).gather(1, chosen)
    worth = answers.worth(reward)
    share = torch.cat((worth, torch.zeros_like(worth[:, :1])), 1).gather(1, chosen)
    pay = group_pay(padded.flatten(), share.flatten(), answers.num_lengths, reward, invalid).reshape(chosen.shape)
    baseline = (pay.sum(1, keepdim=True) - pay) / (pay.shape[1] - 1)
    return (every.gather(1, chosen) * (pay - baseline)).mean(1).sum()


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
        columns, shares, counts = [], [], []
        for first in range(0, len(completions), group):
            members = range(first, first + group)
            if any(prompts[member] != prompts[first] for member in members):
                raise ConfigError(
                    f"a group of {group} answers has different prompts; set num_generations={group} in the trainer"
                )
            known = [(str(each["label"]), str(each["length"]), float(each["score"])) for each in options[first]]
            lengths = sorted({length for _, length, _ in known})
            best = {length: max(score for _, each, score in known if each == length) for length in lengths}
            counts.append(len(lengths))
            for member in members:
                found = answer(completions[member], [label for label, *_ in known])
                _, length, score = known[found] if found is not None else ("", "", 0.0)
                columns.append(lengths.index(length) if found is not None else -1)
                shares.append(score / best[length] if found is not None and best[length] > 0 else 0.0)
        pay = group_pay(torch.tensor(columns), torch.tensor(shares), torch.tensor(counts), self.reward, self.invalid)
        return [float(each) for each in pay]


def answer(completion: Any, labels: Sequence[str]) -> int | None:
    """Return which option an answer names, a text or a list of messages; None if none."""
    text = completion if isinstance(completion, str) else str(completion[-1]["content"])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    found = [place for place, label in enumerate(labels) if re.match(rf"\W*{re.escape(label)}(?!\w)", lines[-1])]
    return found[0] if len(found) == 1 else None
