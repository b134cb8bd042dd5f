"""Batches of levels with outcomes in closed form, for the exact algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from drest_torch.algos.objectives import drest
from drest_torch.algos.objectives.base import Objective, PolicyOutcome
from drest_torch.envs.dynamics.observations import TIME_STEPS, Observation, make_observation, on_actual_clock
from drest_torch.envs.exact import attainable
from drest_torch.envs.exact.passing import ByLottery
from drest_torch.envs.exact.propagator import Arrivals, Reachable, mixture
from drest_torch.envs.exact.soft import reference_policy
from drest_torch.envs.exact.solver import LevelSet, PaidCoins
from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact_evaluator import STATES_AT_ONCE, observe_states, query_policy
from drest_torch.reward import Reward
from drest_torch.tasks.sampling import LevelSampler

Propagate = Callable[[Reachable, Tensor, float], Arrivals]
"""A function from the action probabilities of a policy [Z, N, A] and γ to its arrivals."""


def average_over_bits(reachable: Reachable, probabilities: Tensor, gamma: float) -> Arrivals:
    """Return the arrivals of a policy whose private bits are drawn once in a mini-episode."""
    return mixture([reachable.arrivals(table, gamma) for table in probabilities])


class ExactBatch:
    """Levels whose outcome is a function of the action probabilities at their N reachable states.

    Action probabilities are [Z, N, A], under Z equally likely settings of the private bits.
    """

    def __init__(
        self,
        levels: LevelSet,
        observation: str,
        reward: Reward,
        *,
        coins: PaidCoins = PaidCoins(),  # noqa: B008 (frozen)
        objective: Objective | None = None,
        time_steps: int = TIME_STEPS,
    ) -> None:
        mdp = levels.mdp
        self.reward = reward
        self.objective = objective or drest.Objective(None)
        self.propagate: Propagate = average_over_bits
        """The function that evaluates a policy."""
        self.by_luck = mdp.by_luck
        """[B] True for levels with luck"""
        optima = coins.optima(levels, reward.gamma)
        self.best_return, self.num_lengths = optima.best_return, optima.num_lengths
        played = coins.paid(mdp)
        self._reachable = Reachable(played)
        self._see = on_actual_clock(make_observation(observation, mdp, time_steps), mdp, played)
        self.mdp = mdp
        """The levels with the actual values of their coins, which policies observe."""
        self.states = len(self._reachable)
        """The number N of reachable states."""
        self.visits = self._reachable.visits
        """action probabilities [N, A] → the probability of reaching each state in a mini-episode [N]"""
        self.level = mdp.level_of(self._reachable.states.spot)
        """[N] the level of each reachable state."""
        self._logarithms: dict[str, Tensor] = {}
        self._changes: dict[str, Tensor] = {}

    def observe(self, index: Tensor) -> Tensor:
        """Return the observations [n, *shape] of the states with these indices [n]."""
        return observe_states(self._see, self._reachable.states[index])

    def explore(self, policy: Callable[[Tensor], Tensor], min_visit_probability: float) -> tuple[Tensor, Tensor]:
        """Return the states [V] that a policy reaches with more than this probability, and its logits [V, A]."""
        return self._reachable.explore(lambda states: policy(observe_states(self._see, states)), min_visit_probability)

    def everywhere(self, policy: Callable[[Tensor], Tensor], observe: Observation | None = None) -> Tensor:
        """Return the logits [N, A] of a policy in all states; None: it has the observation of training."""
        return query_policy(policy, observe or self._see, self._reachable.states, STATES_AT_ONCE)

    def outcome(self, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """Return P(L = l), and P(L = l) · E[C | L = l], each [B, K]."""
        arrivals = self.propagate(self._reachable, probabilities, self.reward.gamma)
        return arrivals.probability, arrivals.coins

    def policy_outcome(self, probabilities: Tensor, credit: str) -> PolicyOutcome:
        """Return the outcome of a policy for objectives."""
        probability, coins = self.outcome(probabilities)
        return PolicyOutcome(
            probability,
            coins,
            self.best_return,
            self.num_lengths,
            self.by_luck,
            self.reward,
            credit,
            partial(self.by_lottery, probabilities),
            partial(self.divergence, probabilities),
            partial(self.attainable_change, probabilities),
        )

    def by_lottery(self, probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the probability of entering each lottery [Z, C, B], and its P(L = l) and E[C | L = l] [C, B, K]."""
        lotteries = ByLottery(self._reachable, self.reward.gamma)
        entered = torch.stack([lotteries.entered(table) for table in probabilities])
        return entered, lotteries.probability, lotteries.coins

    def divergence(self, probabilities: Tensor, reference: str) -> Tensor:
        """Return the divergence of trajectories from a reference policy [B], averaged over private bits."""
        if reference not in self._logarithms:
            self._logarithms[reference] = reference_policy(self._reachable, self.best_return, reference).log()
        visits = torch.stack([self.visits(table) for table in probabilities])
        expected = probabilities * self._logarithms[reference].to(probabilities)
        local = (torch.xlogy(probabilities, probabilities) - expected).sum(-1)
        return self._sum_over_ticks(visits * local)

    def attainable_change(self, probabilities: Tensor, goals: str) -> Tensor:
        """Return the mean sum over ticks of the change in attainable values [B], averaged over private bits."""
        if goals not in self._changes:
            self._changes[goals] = attainable.changes(self._reachable, goals)
        change = self._changes[goals].to(probabilities)
        steps = torch.stack([self._reachable.steps(table) for table in probabilities])
        return self._sum_over_ticks((steps * change).sum(-1))

    def _sum_over_ticks(self, local: Tensor) -> Tensor:
        """Return the sum over the states of each level [B] of a quantity [Z, N], averaged over private bits."""
        return local.new_zeros(len(self.by_luck)).index_add(0, self.level, local.mean(0))


class ExactBatches:
    """A source of `ExactBatch`: the same one for each update, or a new one of sampled levels.

    ``unroll`` turns levels into a batch. A ``whole`` level set is unrolled once; otherwise a batch consists of
    ``levels_per_update`` levels of the ``sampler``.
    """

    def __init__(
        self,
        unroll: Callable[[Sequence[Level] | LevelSet], ExactBatch],
        sampler: LevelSampler,
        *,
        levels_per_update: int,
        whole: LevelSet | None,
    ) -> None:
        self.unroll, self.sampler = unroll, sampler
        self.whole: ExactBatch | None = None
        self.levels_per_update = levels_per_update
        if whole is not None:
            self.whole = unroll(whole)
            self.levels_per_update = len(whole.levels)
        self.propagate: Propagate = average_over_bits
        """The function that evaluates a policy in every batch."""

    def sample(self, reward: Reward) -> ExactBatch:
        """Return the next batch, with this reward."""
        batch = self.whole or self.unroll(self.sampler.sample(self.levels_per_update))
        batch.reward, batch.propagate = reward, self.propagate
        return batch
