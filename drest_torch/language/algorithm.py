"""Gradient ascent on the pay of answers, with the exact gradient of the expected pay or from sampled answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from drest_torch.algos.base import Algorithm, Effort
from drest_torch.algos.objectives.base import Objective
from drest_torch.choices.menu_outcomes import policy_outcome
from drest_torch.language.config import LanguageConfig
from drest_torch.language.model import LanguageModel
from drest_torch.language.objective import as_menus, expected_pay, sampled_gain
from drest_torch.language.offers import LARGEST_SCORE
from drest_torch.language.prompts import Prompt
from drest_torch.language.task import PromptTask
from drest_torch.reward import Reward

LONGEST_RISE = 50
"""The learning rate rises in the first tenth of the updates, but in at most this number of updates."""


def by_scenario(prompts: Sequence[Prompt]) -> list[list[Prompt]]:
    """Return prompts in groups of the same scenario and order, which differ only in their question."""
    groups: dict[tuple[str, int], list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault((prompt.scenario, prompt.order), []).append(prompt)
    return list(groups.values())


class AnswerGradient(Algorithm):
    """Gradient ascent for language models: for ``warm_up`` updates on naming the right option, then on the pay."""

    steps_are = "updates"
    finite = ("train/return", "optim/grad_norm")
    if_not_finite = "use a smaller lr"
    policy: LanguageModel
    config: LanguageConfig
    prompts: Sequence[Prompt] = ()
    reading: Sequence[Sequence[Prompt]] = ()
    """The prompts of the warm-up; those that differ only in their question are together."""
    objective: Objective | None = None
    """The objective in place of the expected pay of the reward."""

    def __init__(self, policy: LanguageModel, config: LanguageConfig, rng: torch.Generator) -> None:
        super().__init__(policy, None, config, rng)
        self.weights = policy.weights()
        self.total = config.warm_up + config.updates
        matrices, others = list[Tensor](), list[Tensor]()
        for name, weight in self.weights.items():
            is_for_muon = config.muon_lr is not None and weight.ndim == 2 and "embed" not in name
            group = matrices if is_for_muon else others
            group.append(weight)
        if others:  # LoRA has matrices alone
            self.optimizers["adam"] = torch.optim.Adam(others, lr=config.lr)
        if config.muon_lr is not None and matrices:
            self.optimizers["muon"] = torch.optim.Muon(matrices, lr=config.muon_lr, weight_decay=0.0)
        self.set_progress(0.0)

    @classmethod
    def on(cls, task: Any, config: LanguageConfig, rng: torch.Generator) -> AnswerGradient:
        assert isinstance(task, PromptTask)
        algorithm = cls(task.model, config, rng)
        algorithm.prompts, algorithm.reading = task.prompts, by_scenario(task.reading)
        algorithm.objective = task.objective
        return algorithm

    def set_progress(self, progress: float) -> None:
        """Set the learning rates, which rise at first, then fall to 0."""
        self.done = round(progress * self.total)
        rise = max(1, min(LONGEST_RISE, self.total // 10))
        rising = min(1.0, (self.done + 1) / rise)
        self.scale = rising * (1 - self.done / self.total)
        for optimizer in self.optimizers.values():
            optimizer.param_groups[0]["lr"] = self.scale * optimizer.defaults["lr"]

    def scheduled(self) -> dict[str, float]:
        return {"optim/lr": self.config.lr * self.scale}

    def describe(self, network: str) -> str:
        number = sum(weight.numel() for weight in self.weights.values())
        if self.config.lora is not None:
            network = f"{network} with LoRA of rank {self.config.lora}"
        return f"{network}, {number:,} parameters are trained"

    def update(self, reward: Reward) -> dict[str, Any]:
        config = self.config
        reads = self.done < config.warm_up
        gain_of: Callable[[Sequence[Prompt]], tuple[Tensor, Tensor]] = partial(self.gain, reward=reward)
        if reads:
            gain_of = self.right_answers
        chosen = self._sample(reads)
        self.policy.model.zero_grad()
        pay = torch.zeros((), dtype=torch.float64)
        for first in range(0, len(chosen), config.at_once):
            gain, paid = gain_of(chosen[first : first + config.at_once])
            loss = -gain / len(chosen)
            loss.backward()
            pay += paid.detach().double() / len(chosen)
        norm = clip_grad_norm_(self.weights.values(), 1.0)
        for optimizer in self.optimizers.values():
            optimizer.step()
        self.effort = Effort(steps=1)
        return {"train/return": float(pay), "optim/grad_norm": float(norm)}

    def _sample(self, reads: bool) -> list[Prompt]:
        """Return random prompts for an update; with a prompt of reading come its other questions."""
        number = len(self.reading) if reads else len(self.prompts)
        indices = torch.randint(number, (self.config.prompts,), generator=self.rng).tolist()
        if not reads:
            return [self.prompts[index] for index in indices]
        chosen = list[Prompt]()
        for index in indices:
            chosen += self.reading[index]
        return chosen

    def right_answers(self, prompts: Sequence[Prompt]) -> tuple[Tensor, Tensor]:
        """Return the log-probability of the right option, summed over prompts, as the objective and as the pay."""
        right = []
        for prompt in prompts:
            takes = [option.takes for option in prompt.options]
            right.append([takes.index(True)])
        gain = self.policy.log_probabilities(prompts).gather(1, torch.tensor(right)).sum()
        return gain, gain

    def gain(self, prompts: Sequence[Prompt], reward: Reward) -> tuple[Tensor, Tensor]:
        """Return the objective and the expected pay, each summed over prompts."""
        config = self.config
        menus = as_menus(prompts)
        log_probability = self.policy.log_probabilities(prompts)  # [B, O]
        probability = log_probability.exp()
        if self.objective is None:
            pays = expected_pay(probability, menus, reward, config.reward, credit=config.credit, invalid=config.invalid)
        else:
            outcome = policy_outcome(menus, probability, reward, config.credit, unit=LARGEST_SCORE)
            pays = self.objective.value(outcome) + config.invalid * (1 - probability.sum(-1))
        pay = pays.sum()
        gain = pay
        if config.method == "rloo":
            gain = sampled_gain(log_probability, menus, reward, self.rng, config.invalid)
        entropy = -torch.special.xlogy(probability, probability).sum()
        return gain + config.entropy * entropy, pay
