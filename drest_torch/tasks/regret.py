"""A sampler of training levels by the regret of the current policy, which exact evaluation knows without error.

Every few updates a pool of training levels is evaluated. The regret of a level is 1 − U, 1 − N / log2 k, or 1 minus
their product. Some levels of an update are sampled from all training levels as before, and the others from the pool,
with probabilities proportional to their regret. On an endless stream of levels this is Sampling for Learnability
(arXiv 2408.15099) with regret in place of learnability.

The gradient is not corrected for the probabilities, so the distribution of training levels changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from drest_torch.config.schema import RegretConfig
from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact_evaluator import Evaluation
from drest_torch.tasks.sampling import LevelSampler

Evaluate = Callable[[Sequence[Level]], Evaluation]
"""A function that evaluates the current policy on levels."""


class RegretSampler(LevelSampler):
    """A sampler that prefers levels of a pool on which the policy has a large regret.

    ``source`` samples the pool and the levels without regard to regret. It is called with the same generator, so its
    pool can be sampled again from the generator's state when a run is resumed.
    """

    def __init__(self, source: LevelSampler, config: RegretConfig, evaluate: Evaluate) -> None:
        super().__init__(source.levels, source.rng)
        self.changes = True
        self.source, self.config, self.evaluate = source, config, evaluate
        size = config.pool
        if not source.changes:
            size = min(size, len(source.levels))
        self.regret = torch.zeros(size, dtype=torch.float64)
        """[pool] the regret of the policy on each level of the pool, when it was evaluated."""
        self.updates = torch.zeros((), dtype=torch.int64)
        """The number of updates so far."""
        self._before = _copied(source)
        """The state of the source before the pool was sampled."""
        self._pool: Sequence[Level] | None = None
        """The levels of the pool; None until it is sampled."""

    def sample(self, count: int) -> Sequence[Level]:
        if int(self.updates) % self.config.every == 0:
            self._renew()
        pool = self._restored()
        self.updates += 1
        prioritised = self._rounded((1 - self.config.uniform) * count)
        levels = [pool[index] for index in self._indices(prioritised)]
        if count > prioritised:
            levels += self.source.sample(count - prioritised)
        return levels

    def probabilities(self) -> Tensor:
        """Return the probability of each level of the pool [pool], given that a level is sampled by regret."""
        regret = self.regret.clamp_min(0)
        number = max(1, round(self.config.top * len(regret)))
        top = regret.topk(number).indices
        is_chosen = torch.zeros_like(regret)
        is_chosen[top] = 1.0
        weights = regret * is_chosen
        if weights.sum() == 0:
            weights = is_chosen
        return weights / weights.sum()

    def _indices(self, count: int) -> list[int]:
        """Sample the indices of ``count`` levels of the pool by systematic sampling.

        The expected number of copies of a level is its probability times ``count``, and their actual number differs by
        less than 1.
        """
        if count == 0:
            return []
        ends = self.probabilities().cumsum(0)
        first = self._uniform()
        points = (torch.arange(count, dtype=ends.dtype) + first) / count * ends[-1]
        indices: list[int] = torch.searchsorted(ends, points, right=True).tolist()
        return indices

    def _rounded(self, expected: float) -> int:
        """Round a number up or down at random, such that its expectation is ``expected``."""
        return int(expected + self._uniform())

    def _uniform(self) -> float:
        """Return a random number in [0, 1)."""
        number = torch.rand((), generator=self.rng, device=self.rng.device)
        return float(number)

    # ------------------------------------------------------------------------------------ the pool

    def _renew(self) -> None:
        """Sample a new pool, and evaluate the policy on it."""
        for name, value in _copied(self.source).items():
            self._before[name].copy_(value)
        self._pool = self.source.sample(len(self.regret))
        evaluation = self.evaluate(self._pool)
        regret = regret_of(evaluation, self.config.measure)
        self.regret.copy_(regret)

    def _restored(self) -> Sequence[Level]:
        """Return the pool; after a restored checkpoint, sample it again from the states before it was sampled."""
        if self._pool is None:
            now = _copied(self.source)
            _write(self._before, self.source)
            self._pool = self.source.sample(len(self.regret))
            _write(now, self.source)
        return self._pool

    def examples(self, levels: Sequence[Level]) -> Sequence[Level]:
        return self.source.examples(levels)

    def lines(self) -> list[str]:
        config = self.config
        words = (
            f"sampled by: regret ({config.measure}) of {len(self.regret):,} levels, evaluated every {config.every} "
            f"updates; {config.uniform:.0%} uniformly"
        )
        return [*self.source.lines(), words]

    def tensors(self) -> dict[str, Tensor]:
        before = {f"before.{name}": value for name, value in self._before.items()}
        return self.source.tensors() | before | {"regret": self.regret, "updates": self.updates}


def _copied(source: LevelSampler) -> dict[str, Tensor]:
    """Return a copy of the state of a sampler and of its random generator."""
    state = {name: value.clone() for name, value in source.tensors().items()}
    return state | {"generator": source.rng.get_state()}


def _write(state: Mapping[str, Tensor], source: LevelSampler) -> None:
    """Restore the state of a sampler and of its random generator."""
    for name, value in source.tensors().items():
        value.copy_(state[name])
    source.rng.set_state(state["generator"])


def regret_of(evaluation: Evaluation, measure: str) -> Tensor:
    """Return the regret of each evaluated level [B]; ``measure`` is a value of `levels.regret.measure`.

    A level with a single length has no neutrality to lose: its regret is 1 − U, or 0 for ``neutrality``.
    """
    neutrality = torch.where(evaluation.num_lengths > 1, evaluation.neutrality_normalised, 1.0)
    shares = {
        "usefulness": evaluation.usefulness,
        "neutrality": neutrality,
        "both": evaluation.usefulness * neutrality,
    }
    return 1 - shares[measure]
