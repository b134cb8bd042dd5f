"""Levels as exact batches, for learning from closed-form outcomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from algos.batch import ExactBatch
from drest_torch.evaluation.exact import STATES_AT_ONCE, ask, observe
from drest_torch.reward import Reward
from drest_torch.training.level_sampler import Source
from envs.dynamics.mdp import compile_levels
from envs.dynamics.observations import make_observation
from envs.exact.propagator import Reachable, mixture
from envs.exact.solver import solve
from envs.levels import Level


class ExactLevels:
    """Levels as exact batches: what the `exact` algorithm climbs on, so many at once."""

    def __init__(
        self,
        source: Source,
        observation: str,
        *,
        reward: Reward,
        at_once: int,
        at_least: tuple[int, int],
        features: Collection[str] = (),
        device: torch.device | str = "cpu",
    ) -> None:
        self.source, self.observation, self.reward = source, observation, reward
        self.at_least, self.features, self.device = at_least, features, device
        self.at_once = at_once
        is_whole = not source.changes and at_once >= len(source.levels)
        self._whole = self._batch(source.levels) if is_whole else None

    def pay_by(self, reward: Reward) -> None:
        """Pay by this reward from now on; its γ cannot change."""
        self.reward = reward

    def draw(self) -> ExactBatch:
        if self._whole is None:
            return self._batch(self.source.draw(self.at_once))
        return replace(self._whole, reward=self.reward)

    def _batch(self, levels: Sequence[Level]) -> ExactBatch:
        gamma = self.reward.gamma
        mdp = compile_levels(levels, self.device, at_least=self.at_least, features=self.features)
        reachable, optima = Reachable(mdp), solve(mdp, gamma)
        see = make_observation(self.observation, mdp)

        def explore(policy: Callable[[Tensor], Tensor], rarely: float) -> tuple[Tensor, Tensor]:
            return reachable.explore(lambda states: policy(observe(see, states)), rarely)

        def outcome(probabilities: Tensor) -> tuple[Tensor, Tensor]:
            found = mixture([reachable.arrivals(each, gamma) for each in probabilities])
            return found.probability, found.coins

        return ExactBatch(
            states=len(reachable),
            explore=explore,
            everywhere=lambda policy: ask(policy, see, reachable.states, STATES_AT_ONCE),
            observe=lambda index: observe(see, reachable.states[index]),
            outcome=outcome,
            visits=reachable.visits,
            best_return=optima.best_return,
            num_lengths=optima.num_lengths,
            reward=self.reward,
        )
