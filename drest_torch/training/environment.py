"""Train in any TorchRL or Gymnasium environment: its learner, its updates and its evaluation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torchrl.envs import EnvBase

from drest_torch.algos import ALGORITHMS
from drest_torch.building.agents import AgentSpec
from drest_torch.building.environments import training_environment
from drest_torch.building.policies import build_networks, spec_in_environment
from drest_torch.building.trained import animate, evaluator_of
from drest_torch.config.schema import Config, copies_of
from drest_torch.errors import UserError, blaming
from drest_torch.evaluation.environment_evaluator import EnvironmentEvaluator
from drest_torch.evaluation.memory_guard import MemoryGuard
from drest_torch.reward import Reward
from drest_torch.training.task import Task, count, origin_of
from drest_torch.training.updates import sampled_learner
from drest_torch.transforms.base import innermost, observation_keys, played, title

WATCHED_SHARE = 4
"""During training, one of so many of the mini-episodes of the last evaluation is played."""


class EnvironmentTask(Task):
    """An environment that is no gridworld. Policies are evaluated by sampling, with m(l) as training knows it."""

    def __init__(self, cfg: Config, reward: Reward, rng: torch.Generator) -> None:
        self.cfg = cfg
        has_critic = ALGORITHMS[cfg.algo.name].Algorithm.needs_critic
        self.environment = training_environment(cfg, reward.at(0.0), learner_has_critic=has_critic)
        if keeps_state(self.environment.env, cfg.seed):
            print(
                f"drest_torch: {cfg.env.title} begins in another state when it is reset with the same seed again, so "
                "it is not promised that a run which is resumed or repeated is the same",
                file=sys.stderr,
            )
        flatten = self.environment.flatten
        assert flatten is not None
        # Observations are standardised by what random actions show in one meta-episode of each slot.
        batch = self.environment.collector(self.environment.uniform_actor()).collect(rng)
        flatten.measure(flatten.rows(batch)[played(batch)])
        origin = origin_of(cfg, str(cfg.env.title), self.environment.lengths)
        self.spec = AgentSpec(spec_in_environment(cfg, self.environment), reward, origin)
        context = self.environment.critic_context if has_critic else None
        with MemoryGuard():
            policy, critic = build_networks(
                self.spec.policy, cfg.seed, critic_width=getattr(cfg.algo, "critic_width", None), context=context
            )
        self.learner, self.updater = sampled_learner(cfg, self.environment, policy, critic, rng)
        most = cfg.sampled or 1024
        self.last = evaluator_of(cfg, reward, self.environment, most)
        few, beside = max(1, most // WATCHED_SHARE), self.last.environment
        self.watched = {"test": evaluator_of(cfg, reward, self.environment, few, seed=cfg.seed + 1, beside=beside)}

    def judges(self) -> Iterator[tuple[str, EnvironmentEvaluator]]:
        yield "test", self.last

    def pictures(self, split: str, evaluator: Any, evaluation: Any, folder: Path) -> list[Path]:
        gif = folder / "lengths.gif"
        try:
            animate(self.cfg, self.environment, self.learner.policy, gif)
        except UserError as error:  # the run has ended well without it
            print(f"drest_torch: no animation: {error}", file=sys.stderr)
            return []
        return [gif]

    def lines(self) -> list[str]:
        cfg, env = self.cfg, self.cfg.env
        workers = f" in {count(env.workers, 'process')}" if env.workers else ""
        copies = f"{copies_of(cfg)} copies{workers}; lengths {', '.join(map(str, self.environment.lengths))}"
        return [
            f"trained in: {env.title} ({env.name}), {copies}",
            f"evaluated by: {count(cfg.sampled or 1024, 'mini-episode')}",
        ]

    def close(self) -> None:
        for environment in (self.last.environment, self.watched["test"].environment, self.environment):
            environment.env.close(raise_if_closed=False)


@torch.no_grad()
def keeps_state(env: EnvBase, seed: int) -> bool:
    """Return whether what an environment shows first, after a reset from a seed, depends on what was played before."""
    env, shown = innermost(env), []
    with torch.random.fork_rng(), blaming(title(env), wholly=False):
        torch.manual_seed(seed)
        for _ in range(2):
            env.set_seed(seed)
            state = env.reset()
            shown.append([state[key].clone() for key in observation_keys(env)])
            env.rand_step(state)
    return not all(torch.equal(*pair) for pair in zip(*shown, strict=True))
