"""Turn levels into exact batches, whose outcomes are computed in closed form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from drest_torch.algos.exact import ExactBatch
from drest_torch.algos.objectives import drest
from drest_torch.algos.objectives.base import Objective
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import TIME_STEPS, make_observation
from drest_torch.envs.exact.level_set import LevelSet, PaidCoins
from drest_torch.envs.exact.passing import ByLottery
from drest_torch.envs.exact.propagator import Arrivals, Reachable, mixture
from drest_torch.envs.exact.soft import reference_policy
from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact import STATES_AT_ONCE, observe_states, query_policy
from drest_torch.reward import Reward
from drest_torch.training.level_sampler import LevelSampler


def every_setting(reachable: Reachable, probabilities: Tensor, gamma: float) -> Arrivals:
    """Return what a policy comes to whose private bits are drawn at the start of a mini-episode and stay."""
    return mixture([reachable.arrivals(table, gamma) for table in probabilities])


class ExactLevels:
    """A source of exact batches of ``at_once`` levels each, for the `exact` algorithm.

    ``compiled`` are all levels of the source, if they are compiled already.
    """

    def __init__(
        self,
        source: LevelSampler,
        observation: str,
        *,
        reward: Reward,
        coins: PaidCoins = PaidCoins(),  # noqa: B008 (frozen)
        objective: Objective | None = None,
        at_once: int,
        at_least: tuple[int, int],
        features: Collection[str] = (),
        time_steps: int = TIME_STEPS,
        device: torch.device | str = "cpu",
        compiled: LevelSet | None = None,
    ) -> None:
        self.source, self.observation, self.time_steps, self.reward = source, observation, time_steps, reward
        self.coins = coins
        self.at_least, self.features, self.device = at_least, features, device
        self.objective = drest.Objective(None) if objective is None else objective
        self.at_once = at_once
        self.comes_to = every_setting
        """What a policy comes to whose action probabilities are [Z, N, 4] under each setting of its private bits."""
        is_whole = not source.changes and at_once >= len(source.levels)
        self._whole = self._batch(self._compiled(source.levels) if compiled is None else compiled) if is_whole else None
        self.per_update = len(source.levels) if is_whole else at_once
        """The number of levels in a batch."""

    def set_reward(self, reward: Reward) -> None:
        """Pay by this reward from now on; its γ must be that of the old reward."""
        self.reward = reward

    def draw(self) -> ExactBatch:
        """Return the next batch: the whole set if it fits and never changes, otherwise a sample of levels."""
        if self._whole is None:
            return self._batch(self._compiled(self.source.draw(self.at_once)))
        return replace(self._whole, reward=self.reward)

    def _compiled(self, levels: Sequence[Level]) -> LevelSet:
        return LevelSet(compile_levels(levels, self.device, at_least=self.at_least, features=self.features))

    def _batch(self, levels: LevelSet) -> ExactBatch:
        gamma, mdp = self.reward.gamma, levels.mdp
        reachable = Reachable(self.coins.paid(mdp))
        optima = self.coins.optima(levels, gamma, committed=self.reward.committed)
        see = make_observation(self.observation, mdp, self.time_steps)

        def explore(policy: Callable[[Tensor], Tensor], min_visit_probability: float) -> tuple[Tensor, Tensor]:
            return reachable.explore(lambda states: policy(observe_states(see, states)), min_visit_probability)

        def outcome(probabilities: Tensor) -> tuple[Tensor, Tensor]:
            lengths = self.comes_to(reachable, probabilities, gamma)
            return lengths.probability, lengths.coins

        def by_lottery(probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            lotteries = ByLottery(reachable, gamma)
            taken = torch.stack([lotteries.entered(table) for table in probabilities])
            return taken, lotteries.probability, lotteries.coins

        level = mdp.level_of(reachable.states.spot)

        logarithms: dict[str, Tensor] = {}

        def divergence(probabilities: Tensor, reference: str) -> Tensor:
            if reference not in logarithms:
                logarithms[reference] = reference_policy(reachable, optima.best_return, reference).log()
            visits = torch.stack([reachable.visits(table) for table in probabilities])
            expected = probabilities * logarithms[reference].to(probabilities)
            local = (torch.xlogy(probabilities, probabilities) - expected).sum(-1)
            return visits.new_zeros(mdp.num_levels).index_add(0, level, (visits * local).mean(0))

        return ExactBatch(
            states=len(reachable),
            explore=explore,
            everywhere=lambda policy: query_policy(policy, see, reachable.states, STATES_AT_ONCE),
            observe=lambda index: observe_states(see, reachable.states[index]),
            outcome=outcome,
            by_lottery=by_lottery,
            divergence=divergence,
            visits=reachable.visits,
            best_return=optima.best_return,
            num_lengths=optima.num_lengths,
            by_luck=mdp.by_luck,
            reward=self.reward,
            objective=self.objective,
        )
