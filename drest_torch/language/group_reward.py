"""The DReST reward for the trainers of TRL, which pays the answers of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import torch

from drest_torch.errors import ConfigError
from drest_torch.language.objective import INVALID, as_menus, group_pay
from drest_torch.language.prompt_files import as_prompt
from drest_torch.language.prompts import Prompt
from drest_torch.language.text_answers import NO_ANSWER, RULES, TextAnswer, read_answer
from drest_torch.reward import Reward


class DReSTGroupReward:
    """The DReST reward as a function for TRL's ``reward_funcs``; a prompt's generations are a meta-episode.

    The data set needs a column ``options``: for each prompt, a list of objects with label, length and score. A lottery
    has ``outcomes`` instead, a list of objects with chance, length and score, and is paid in expectation, as in
    `drest_torch.language.objective.expected_pay`. `drest_torch.language.text_answers` reads the answers. An answer that
    names no option is paid ``invalid``; with None it has no gradient.

    The trainer is told the rule that read each answer, in the column ``rule`` of its completions, and the share of
    valid answers, in the metric ``drest/valid``. Works with `RLOOTrainer` and `GRPOTrainer`.
    """

    __name__ = "drest"

    def __init__(self, num_generations: int, lam: float = 0.9, *, invalid: float | None = INVALID) -> None:
        if num_generations < 2:
            raise ConfigError(f"num_generations={num_generations}; expected at least 2 answers of each prompt")
        self.reward = Reward(lam, episodes_per_meta=num_generations, counting="averaged")
        self.invalid = invalid

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], options: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """Return the pay of each answer."""
        scenarios = columns.get("scenario", [None] * len(prompts))
        self._check_groups(prompts, options, scenarios)
        group = self.reward.episodes_per_meta
        group_prompts = []
        for index, group_options in enumerate(options[::group]):
            group_prompts.append(_prompt_of(group_options, f"options of the prompt {index + 1} of this batch"))
        answers = []
        for index, completion in enumerate(completions):
            answers.append(_answer(completion, group_prompts[index // group]))
        _log(answers, columns)
        chosen = [-1 if answer.option is None else answer.option for answer in answers]
        by_prompt = torch.tensor(chosen).reshape(-1, group)
        unpaid = INVALID if self.invalid is None else self.invalid
        pay = group_pay(by_prompt, as_menus(group_prompts), self.reward, unpaid)
        paid: list[float | None] = pay.flatten().tolist()
        if self.invalid is None:
            paid = [None if option < 0 else value for option, value in zip(chosen, paid, strict=True)]
        return paid

    def _check_groups(self, prompts: Sequence[Any], options: Sequence[Any], scenarios: Sequence[Any]) -> None:
        """Refuse answers that are not whole groups, each of one prompt with its options."""
        group = self.reward.episodes_per_meta
        if not prompts or len(prompts) % group:
            raise ConfigError(
                f"{len(prompts)} answers are not whole groups of {group}; set num_generations={group} in the "
                "trainer, and a multiple of it as the batch (per_device_train_batch_size × gradient_accumulation_steps)"
            )
        for first in range(0, len(prompts), group):
            rest = range(first + 1, first + group)
            if any(prompts[index] != prompts[first] for index in rest):
                raise ConfigError(
                    f"a group of {group} answers has different prompts; set num_generations={group} in the trainer"
                )
            if any(options[index] != options[first] for index in rest):
                raise ConfigError(
                    f"a group of {group} answers to one prompt has different options; give each prompt of the data set "
                    "the options that its text names"
                )
            previous = first - group
            if first and (prompts[first], scenarios[first]) == (prompts[previous], scenarios[previous]):
                self._refuse_split(prompts, previous)

    def _refuse_split(self, prompts: Sequence[Any], first: int) -> None:
        """Raise for more answers to a prompt than a group has, from the answer ``first`` on."""
        group = self.reward.episodes_per_meta
        answers = len(list(takewhile(lambda prompt: prompt == prompts[first], prompts[first:])))
        raise ConfigError(
            f"{answers} answers in a row have the same prompt, but DReSTGroupReward has num_generations={group}; give "
            f"it the number of the trainer, {answers}. If rows of the data set have the same prompt, give them "
            "different values in a column `scenario`"
        )


def _prompt_of(options: Any, place: str) -> Prompt:
    """Return the prompt with these options, whose outcomes may be objects, as in tables of Arrow."""
    records = []
    for option in options:
        record = dict(option)
        outcomes = record.get("outcomes")
        if outcomes:
            record["outcomes"] = [_outcome(outcome) for outcome in outcomes]
        records.append(record)
    return as_prompt({"options": records, "prompt": ""}, place)


def _outcome(outcome: Any) -> Any:
    if isinstance(outcome, Mapping):
        return [outcome.get(key) for key in ("chance", "length", "score")]
    return outcome


def _answer(completion: Any, prompt: Prompt) -> TextAnswer:
    return read_answer(completion, [option.label for option in prompt.options])


def _log(answers: Sequence[TextAnswer], columns: Mapping[str, Any]) -> None:
    """Give the rules that read the answers to a trainer, if it logs."""
    rules = [answer.rule for answer in answers]
    if "log_extra" in columns:
        columns["log_extra"]("rule", rules)
    if "log_metric" in columns:
        valid = [answer.option is not None for answer in answers]
        columns["log_metric"]("drest/valid", sum(valid) / len(valid))
        counts = Counter(rules)
        for rule in (*RULES, *NO_ANSWER):  # the same metrics in all processes of a trainer
            columns["log_metric"](f"drest/rule/{rule}", counts[rule] / len(rules))
