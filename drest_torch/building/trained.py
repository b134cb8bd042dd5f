"""Load what a run in an environment that is no gridworld has learned, and evaluate it."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from drest_torch.building.checkpoints import checkpoint_path, load_checkpoint, load_module
from drest_torch.building.environments import evaluation_environment, rendering_environment
from drest_torch.building.parts import environment_networks, reward_of
from drest_torch.collector import Environment
from drest_torch.config.schema import Config
from drest_torch.envs.tasks.finite import FiniteTask
from drest_torch.errors import UserError
from drest_torch.evaluation.environment import EnvironmentEvaluator, known, records
from drest_torch.evaluation.finite import FiniteEvaluation, FinitePolicy, evaluate, mixed
from drest_torch.evaluation.results import split_summary
from drest_torch.transforms import ShutdownTimer


class TrainedInEnvironment:
    """The policy of a run in an environment that is no gridworld, from a checkpoint."""

    def __init__(self, folder: Path, cfg: Config, which: str) -> None:
        self.folder, self.cfg, self.checkpoint = folder, cfg, checkpoint_path(folder, which)
        self.reward = reward_of(cfg)
        tensors, _ = load_checkpoint(self.checkpoint)
        environment = evaluation_environment(cfg, self.reward, 1)
        environment.env.close(raise_if_closed=False)
        assert environment.flatten is not None
        self.flatten = environment.flatten
        self.flatten.centre, self.flatten.spread = tensors["updater.centre"], tensors["updater.spread"]
        self.environment = environment
        ones = torch.ones(1, environment.num_lengths)
        self.best = known(tensors["updater.best"]) if environment.best is not None else ones
        self.policy, _ = environment_networks(cfg, environment)
        load_module("policy", self.policy, tensors, self.checkpoint)

    def evaluate(self, mini_episodes: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Play so many mini-episodes; return the numbers of a summary, and the records of each level."""
        environment = evaluation_environment(self.cfg, self.reward, mini_episodes)
        environment.sees_as(self.environment)
        evaluator = EnvironmentEvaluator(
            environment,
            name=str(self.cfg.env.title),
            reward=self.reward,
            seed=self.cfg.seed,
            mini_episodes=mini_episodes,
        )
        evaluation = evaluator.evaluate(self.policy, self.best)
        numbers = split_summary(evaluation, evaluator.evaluate_uniform(self.best), len(self.best))
        environment.env.close(raise_if_closed=False)
        return numbers, records(evaluation, self.best)

    @torch.no_grad()
    def exact(self, task: FiniteTask) -> FiniteEvaluation:
        """Return the exact metrics, if the environment is this finite task with a timer."""
        environment = evaluation_environment(self.cfg, self.reward, 1)
        environment.env.close(raise_if_closed=False)
        timer = next((part for part in environment.env.transform if isinstance(part, ShutdownTimer)), None)
        shown = self.flatten.shown
        found = [(entry.key, entry.numbers) for entry in shown][:1]
        same = found == [("observation", task.shown.shape[1])] and len(shown) == 2
        if timer is None or not same or environment.actions.outputs != task.actions + 1:
            raise UserError(
                f"{self.folder} is not of this task with a timer that an action delays; evaluate by sampled="
            )
        if self.cfg.policy.private_kind != "bits":
            raise UserError(f"{self.folder} draws private numbers, of which there are too many; evaluate by sampled=")

        def policy(private: Tensor | None) -> FinitePolicy:
            def act(states: Tensor, shown: Tensor) -> Tensor:
                rows = TensorDict({"observation": task.shown[states], "timer": shown}, batch_size=states.shape)
                bits = None if private is None else private.expand(len(states), -1)
                return self.policy(self.flatten.standardised(self.flatten.rows(rows)), bits).softmax(-1)

            return act

        count = self.cfg.policy.private_bits
        settings = [torch.tensor(each) for each in product((0.0, 1.0), repeat=count)] if count else [None]
        floor, gamma = self.cfg.env.floor, self.reward.gamma
        return mixed([evaluate(task, timer, policy(setting), gamma=gamma, floor=floor) for setting in settings])


def animate(cfg: Config, trained: Environment, policy: Any, path: Path) -> bool:
    """Animate one mini-episode of each length that a policy plays; return whether the environment can be rendered.

    If it cannot, for want of a library or a screen, a line says why.
    """
    from drest_torch.plots.environment import mini_episodes, write_animation  # matplotlib takes time

    try:
        environment = rendering_environment(cfg, reward_of(cfg))
        environment.sees_as(trained)
        frames = mini_episodes(environment, policy, cfg.seed)
        environment.env.close(raise_if_closed=False)
    except UserError as error:
        print(f"no animation: {error}", file=sys.stderr)
        return False
    if frames:
        write_animation(frames, environment.lengths, path)
    return bool(frames)
