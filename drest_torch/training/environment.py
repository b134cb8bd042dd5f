"""Train in any TorchRL or Gymnasium environment: its learner, its updates and its judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drest_torch.building.environments import REFERENCE, evaluation_environment, training_environment
from drest_torch.building.parts import environment_networks
from drest_torch.building.trained import animate
from drest_torch.collector import Environment
from drest_torch.config.schema import Config, algorithm
from drest_torch.evaluation.environment import EnvironmentEvaluator, known, records
from drest_torch.evaluation.summary import split_summary
from drest_torch.files import write_json
from drest_torch.memory import Bounded
from drest_torch.reward import Reward
from drest_torch.training.introduction import environment_introduction
from drest_torch.training.judge import Verdict
from drest_torch.training.learner import sampled_learner
from drest_torch.training.tasks import Task
from drest_torch.transforms.base import played

WATCHED_SHARE = 4
"""During training, one of so many of the mini-episodes of the last evaluation is played."""


class EnvironmentJudge:
    """Evaluates policies by sampling, with m(l) as training knows it."""

    selection = None

    def __init__(self, cfg: Config, reward: Reward, training: Environment) -> None:
        self.cfg, self.reward, self.training = cfg, reward, training
        most = cfg.sampled or 1024
        self.last = self._evaluator(reward, most, cfg.seed)
        beside = self.last.environment
        self.watched = self._evaluator(reward, max(1, most // WATCHED_SHARE), cfg.seed + 1, beside)

    def _evaluator(
        self, reward: Reward, mini_episodes: int, seed: int, beside: Environment | None = None
    ) -> EnvironmentEvaluator:
        environment = evaluation_environment(self.cfg, reward, mini_episodes, beside=beside)
        environment.sees_as(self.training)
        name = str(self.cfg.env.title)
        return EnvironmentEvaluator(environment, name=name, reward=reward, seed=seed, mini_episodes=mini_episodes)

    def best(self) -> Tensor:
        """Return m(l) [levels, k]."""
        if self.training.best is None:
            return torch.ones(1, self.training.num_lengths)
        return known(self.training.best.best)

    def watch(self, policy: Any) -> dict[str, float]:
        """Return the metrics of a policy during training."""
        evaluation = self.watched.evaluate(policy, self.best())
        chances = zip(self.training.lengths, evaluation.found.probability.mean(0).tolist(), strict=True)
        metrics = evaluation.means() | {f"p_length/{length}": chance for length, chance in chances}
        return {f"eval/test/{name}": value for name, value in metrics.items()}

    def judge(self, policy: Any, folder: Path) -> Verdict:
        """Evaluate a policy at the end, and write what was found to the folder of its run."""
        best = self.best()
        uniform = self.last.evaluate_uniform(best)
        evaluation = self.last.evaluate(policy, best)
        write_json(folder / "levels_test.json", records(evaluation, best))
        numbers = split_summary(evaluation, uniform, len(best)) | {"file": "levels_test.json"}
        pictures, gif = {}, folder / "pictures" / "lengths.gif"
        if self.cfg.pictures and animate(self.cfg, self.training, policy, gif):
            pictures["test/lengths"] = gif
        return Verdict({"test": numbers}, pictures)

    def close(self) -> None:
        for evaluator in (self.last, self.watched):
            evaluator.environment.env.close(raise_if_closed=False)


class EnvironmentTask(Task):
    """An environment that is no gridworld."""

    def __init__(self, cfg: Config, reward: Reward, rng: torch.Generator) -> None:
        self.cfg = cfg
        has_critic = algorithm(cfg.algo.name).Algorithm.needs_critic
        self.environment = training_environment(cfg, reward.at(0.0), learner_has_critic=has_critic)
        if cfg.env.standardise:
            standardise(self.environment, rng)
        with Bounded():
            policy, critic = environment_networks(cfg, self.environment, with_critic=has_critic)
        self.learner, self.updater = sampled_learner(cfg, self.environment, policy, critic, rng)
        self.judge: EnvironmentJudge = EnvironmentJudge(cfg, reward, self.environment)

    def prepare(self, folder: Path) -> bool:
        if self.cfg.env.best != REFERENCE:
            return True
        from drest_torch.training.references import reference_best  # runs of its own

        best = reference_best(self.cfg, self.environment.lengths, folder)
        if best is not None and self.environment.best is not None:
            self.environment.best.best.copy_(best)
        return best is not None

    def introduction(self, folder: Path) -> str:
        return environment_introduction(self.cfg, self.environment, self.learner, self.updater.pace, folder)

    def close(self) -> None:
        self.judge.close()
        self.environment.env.close(raise_if_closed=False)


def standardise(environment: Environment, rng: torch.Generator) -> None:
    """Measure the observations of random actions, for one meta-episode of each slot."""
    flatten = environment.flatten
    assert flatten is not None
    batch = environment.collector(environment.uniform_actor()).collect(rng)
    flatten.measure(flatten.rows(batch)[played(batch)], ["timer"])
