"""The task of TorchRL and Gymnasium environments, in which policies are evaluated by sampling."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchrl.envs import EnvBase

from drest_torch.agents.in_environments import animate, evaluator_of
from drest_torch.agents.specification import AgentSpec, origin_of
from drest_torch.agents.untrained import policy_spec
from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks.spec import PolicySpec, RowView
from drest_torch.config.schema import Config, copies_of, reward_of
from drest_torch.errors import UserError, blaming
from drest_torch.evaluation.environment_evaluator import EnvironmentEvaluator
from drest_torch.play.rows import RowEnvironment
from drest_torch.play.third_party import training_environment
from drest_torch.tasks.base import AgentTask, count
from drest_torch.transforms.base import innermost, observation_keys, title
from drest_torch.transforms.mini_episodes import played

MINI_EPISODES = 1024
"""The default number of mini-episodes of the final evaluation."""
WATCHED_SHARE = 4
"""The ratio of mini-episodes in the final evaluation and in one during training."""


class EnvironmentTask(AgentTask):
    """An environment other than a gridworld. Policies are evaluated by sampling, with training's estimate of m(l)."""

    def __init__(self, cfg: Config, rng: torch.Generator) -> None:
        self.cfg, self.device, reward = cfg, rng.device, reward_of(cfg)
        has_critic = ALGORITHMS[cfg.algo.name].Algorithm.needs_critic
        self.played = training_environment(cfg, reward.at(0.0), with_critic=has_critic)
        if keeps_state(self.played.env, cfg.seed):
            print(
                f"drest_torch: {cfg.env.title} begins in another state when it is reset with the same seed again, so "
                "it is not promised that a run which is resumed or repeated is the same",
                file=sys.stderr,
            )
        self._standardise(rng)
        origin = origin_of(cfg, str(cfg.env.title), self.played.lengths)
        self.spec = AgentSpec(spec_in_environment(cfg, self.played), reward, origin)
        mini_episodes = cfg.sampled or MINI_EPISODES
        fewer = max(1, mini_episodes // WATCHED_SHARE)
        self.last = evaluator_of(cfg, reward, self.played, mini_episodes)
        beside = self.last.environment
        self.watched = {"test": evaluator_of(cfg, reward, self.played, fewer, seed=cfg.seed + 1, beside=beside)}

    def _standardise(self, rng: torch.Generator) -> None:
        """Standardise observations with the statistics of a random policy in one meta-episode of each slot."""
        flatten = self.played.flatten
        batch = self.played.collector(self.played.uniform_actor()).collect(rng)
        mask = played(batch)
        flatten.measure(flatten.rows(batch)[mask])
        self.played.expected_turn = int(mask.sum()) / (len(batch) * self.played.rounds)

    def environment(self, *, with_critic: bool) -> RowEnvironment:
        """Return the training environment; whether a critic sees the counts follows from the configuration."""
        return self.played

    def tensors(self) -> dict[str, Tensor]:
        return self.played.tensors()

    def judges(self) -> Iterator[tuple[str, EnvironmentEvaluator]]:
        yield "test", self.last

    def pictures(self, split: str, evaluator: Any, evaluation: Any, policy: Any, folder: Path) -> list[Path]:
        gif = folder / "lengths.gif"
        try:
            animate(self.cfg, self.played, policy, gif)
        except UserError as error:  # the run is complete without it
            print(f"drest_torch: no animation: {error}", file=sys.stderr)
            return []
        return [gif]

    def arrays(self, split: str, records: Sequence[Mapping[str, Any]], policy: Any) -> dict[str, np.ndarray]:
        """Return normalised neutrality by level, with unknown and with known private bits, and arrays by length."""
        by_length = {
            "p_length": "length_probabilities",
            "return_given_length": "return_given_length",
            "best_return": "best_return",
        }
        log2_k = max(np.log2(len(records[0]["length_probabilities"])), 1.0)
        arrays = {"lengths": np.array([int(length) for length in records[0]["length_probabilities"]])}
        for name, key in by_length.items():
            arrays[name] = np.array([list(level[key].values()) for level in records])
        arrays["neutrality_normalised"] = np.array([level["neutrality_normalised"] for level in records])
        arrays["neutrality_own_normalised"] = np.array([level["neutrality_own"] / log2_k for level in records])
        return arrays

    def lines(self) -> list[str]:
        cfg, env = self.cfg, self.cfg.env
        copies = f"{copies_of(cfg)} copies"
        if env.workers:
            copies += f" in {count(env.workers, 'process')}"
        lengths = ", ".join(map(str, self.played.lengths))
        return [
            f"trained in: {env.title} ({env.name}), {copies}; lengths {lengths}",
            f"evaluated by: {count(cfg.sampled or MINI_EPISODES, 'mini-episode')}",
        ]

    def after_failure(self, command: str) -> str:
        """Return the command that resumes the run, or restarts it, once the environment is repaired."""
        return f"; then go on: {command}"

    def close(self) -> None:
        for environment in (self.last.environment, self.watched["test"].environment, self.played):
            environment.env.close(raise_if_closed=False)


def spec_in_environment(cfg: Config, environment: RowEnvironment) -> PolicySpec:
    """Return the specification of a run's policy in an environment whose observation is a row of numbers."""
    flatten, actions = environment.flatten, environment.actions
    offset = tuple(environment.untrained_outputs().tolist())
    view = RowView(entries=flatten.shapes, actions=actions.record(), offset=offset)
    return policy_spec(cfg, view, flatten.shape, outputs=actions.outputs)


@torch.no_grad()
def keeps_state(env: EnvBase, seed: int) -> bool:
    """Return True if the first observation after a reset with a seed depends on earlier steps."""
    env, observations = innermost(env), []
    with torch.random.fork_rng(), blaming(title(env), wholly=False):
        torch.manual_seed(seed)
        for _ in range(2):
            env.set_seed(seed)
            state = env.reset()
            observations.append([state[key].clone() for key in observation_keys(env)])
            env.rand_step(state)
    return not all(torch.equal(*pair) for pair in zip(*observations, strict=True))
