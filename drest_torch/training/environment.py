"""Train in any TorchRL or Gymnasium environment: its learner, its updates and its judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.base import Learner
from drest_torch.algos.generators import Generators
from drest_torch.building.environments import (
    REFERENCE,
    Environment,
    evaluation_environment,
    training_environment,
)
from drest_torch.building.parts import environment_networks
from drest_torch.building.trained import animate
from drest_torch.config.schema import Config, algorithm
from drest_torch.evaluation.environment import EnvironmentEvaluator, known, records
from drest_torch.evaluation.summary import split_summary
from drest_torch.files import write_json
from drest_torch.memory import Bounded
from drest_torch.reward import Reward
from drest_torch.rollout.torchrl import EnvironmentCollector, steps
from drest_torch.training.introduction import environment_introduction
from drest_torch.training.judge import Verdict
from drest_torch.training.tasks import Task
from drest_torch.training.updates import Updater, UpdateResult

WATCHED_SHARE = 4
"""During training, one of so many of the mini-episodes of the last evaluation is played."""


class EnvironmentUpdater(Updater):
    """Updates on batches of mini-episodes of an environment, which pays them itself."""

    def __init__(self, environment: Environment, collector: EnvironmentCollector) -> None:
        self.environment, self.collector = environment, collector
        self.context_size = collector.context_size

    def take(self, learner: Any, reward: Reward) -> UpdateResult:
        drest = self.environment.drest
        if drest is not None and reward != drest.reward:
            drest.set_reward(reward)
        batch = self.collector.collect(learner.policy)
        metrics = learner.update(batch)
        averages = {"train/return": batch.reward.mean(), "train/mini_episode_steps": len(batch) / batch.episodes}
        return UpdateResult(len(batch), batch.episodes, metrics | averages | self._best())

    def _best(self) -> dict[str, float]:
        if self.environment.best is None:
            return {}
        best = self.environment.best.best.mean(0).tolist()
        return {f"train/best/{name}": value for name, value in zip(self.environment.lengths, best, strict=True)}

    def tensors(self) -> dict[str, Tensor]:
        flatten, best = self.environment.flatten, self.environment.best
        seen = {} if best is None else dict(best.named_buffers())
        return {"centre": flatten.centre, "spread": flatten.spread, **seen}


class EnvironmentJudge:
    """Evaluates policies by sampling, with m(l) as training knows it."""

    selection = None

    def __init__(self, cfg: Config, reward: Reward, training: Environment) -> None:
        self.cfg, self.reward, self.training = cfg, reward, training
        most = cfg.sampled or 1024
        self.last = self._evaluator(reward, most, cfg.seed)
        self.watched = self._evaluator(reward, max(1, most // WATCHED_SHARE), cfg.seed + 1)

    def _evaluator(self, reward: Reward, mini_episodes: int, seed: int) -> EnvironmentEvaluator:
        environment = evaluation_environment(self.cfg, reward, mini_episodes)
        environment = replace(environment, flatten=self.training.flatten)
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

    def judge(self, policies: Sequence[Any], folders: Sequence[Path]) -> list[Verdict]:
        """Evaluate every policy at the end, and write what was found to its folder."""
        best = self.best()
        uniform = self.last.evaluate_uniform(best)
        verdicts = []
        for policy, folder in zip(policies, folders, strict=True):
            evaluation = self.last.evaluate(policy, best)
            write_json(folder / "levels_test.json", records(evaluation, best))
            numbers = split_summary(evaluation, uniform, len(best)) | {"file": "levels_test.json"}
            pictures, gif = {}, folder / "pictures" / "lengths.gif"
            if self.cfg.pictures and animate(self.cfg, self.training.flatten, policy, gif):
                pictures["test/lengths"] = gif
            verdicts.append(Verdict({"test": numbers}, pictures))
        return verdicts

    def close(self) -> None:
        for evaluator in (self.last, self.watched):
            evaluator.environment.env.close(raise_if_closed=False)


class EnvironmentTask(Task):
    """An environment that is no gridworld."""

    def __init__(self, cfg: Config, reward: Reward, rng: Generators) -> None:
        self.cfg = cfg
        self.environment = training_environment(cfg, reward.at(0.0))
        if cfg.env.standardise:
            standardise(self.environment, rng)
        best = self.environment.best

        def mean_best() -> float:
            if best is None:
                return 1.0
            seen = best.best[best.best > 0]
            return seen.mean().item() if len(seen) else 1.0

        k = self.environment.num_lengths

        def log_discounts(counts: Tensor) -> Tensor:
            return reward.exponent(counts, counts.sum(-1, keepdim=True), k) * math.log(reward.lam)

        collector = EnvironmentCollector(
            self.environment.env,
            self.environment.flatten,
            self.environment.distribution,
            rng,
            num_lengths=k,
            mean_best=mean_best,
            log_discounts=log_discounts if reward.counting == "sequential" else None,
            scaled=not reward.divide_by_best,
            are_bits=cfg.policy.private_kind == "bits",
        )
        self.updater: EnvironmentUpdater = EnvironmentUpdater(self.environment, collector)
        kind = algorithm(cfg.algo.name).Algorithm
        with Bounded():
            policy, critic = environment_networks(
                cfg, self.environment, collector.context_size, with_critic=kind.needs_critic
            )
        self.learner: Learner = kind(policy, critic, cfg.algo, rng)
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


@torch.no_grad()
def standardise(environment: Environment, rng: Generators) -> None:
    """Measure the observations of random actions, for one meta-episode of each slot."""
    offset = environment.distribution.offset(environment.ask)
    playing = steps(
        environment.env,
        environment.flatten,
        lambda observation, _: offset.expand(len(observation), -1),
        environment.distribution,
        rng,
    )
    rows = torch.cat([environment.flatten.rows(step.before)[step.live] for step in playing])
    environment.flatten.measure(rows, ["timer"])
