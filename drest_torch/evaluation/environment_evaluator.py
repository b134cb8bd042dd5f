"""Sampled evaluation of policies in third-party environments."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from drest_torch.algos.actor import Actor
from drest_torch.envs.exact.solver import Optima
from drest_torch.evaluation.sampled import EndedEpisodes, SampledEvaluation, ended_episodes, estimates, tally
from drest_torch.metrics import share_of_best
from drest_torch.play.rows import RowEnvironment
from drest_torch.reward import Reward
from drest_torch.transforms import MetaEpisodes
from drest_torch.transforms.base import LEVEL


@dataclass(frozen=True)
class EnvironmentEvaluation(SampledEvaluation):
    """Estimates of the metrics, with the m(l) used to normalise returns."""

    best: Tensor
    """[levels, k] m(l)."""

    def means(self) -> dict[str, float]:
        lengths = self.lengths[0].tolist()
        chances = self.outcome.probability.mean(0).tolist()
        by_length = {f"p_length/{length}": chance for length, chance in zip(lengths, chances, strict=True)}
        return super().means() | by_length

    def _record(self, index: int) -> dict[str, Any]:
        lengths = [str(length) for length in self.lengths[0].tolist()]
        coins = self.outcome.coins[index].tolist()
        best = self.best[index].tolist()
        return {
            **super()._record(index),
            "return_given_length": dict(zip(lengths, coins, strict=True)),
            "best_return": dict(zip(lengths, best, strict=True)),
        }


class EnvironmentEvaluator:
    """An evaluator that plays mini-episodes of an environment from fixed seeds and estimates the metrics.

    Every slot plays whole meta-episodes until at least ``mini_episodes`` are complete and every level was played.
    Levels are assigned to the slots in turn.
    ``best`` [levels, k] is m(l) from training; evaluation does not raise it. If m(l) is the largest return so far,
    larger returns are clipped to m. If training has no return of a length (0), m(l) is the largest in this evaluation.
    If the user gave m(l), it is an expectation, which single returns may exceed.
    """

    def __init__(
        self, environment: RowEnvironment, best: Tensor, *, name: str, reward: Reward, seed: int, mini_episodes: int = 1
    ) -> None:
        self.environment = environment
        self.best = best
        self.name = name
        self.reward = reward
        self.seed = seed
        self.mini_episodes = mini_episodes

    def evaluate(self, policy: nn.Module, *, greedy: bool = False) -> EnvironmentEvaluation:
        """Return the metrics of a policy."""
        return self._estimate(self.environment.actor(policy), greedy=greedy)

    def evaluate_uniform(self) -> EnvironmentEvaluation:
        """Return the metrics of the random policy, which requests a delay in about half of the mini-episodes."""
        return self._estimate(self.environment.uniform_actor())

    def summarised(self, policy: nn.Module, *, greedy: bool = False) -> tuple[EnvironmentEvaluation, dict[str, Any]]:
        """Return the metrics of a policy and its summary; print a warning if usefulness is meaningless."""
        uniform = self.evaluate_uniform()
        evaluation = self.evaluate(policy, greedy=greedy)
        if warning := usefulness_warning(evaluation, self.name):
            print(f"drest_torch: {warning}", file=sys.stderr)
        return evaluation, evaluation.summary(uniform)

    @torch.no_grad()
    def _estimate(self, actor: Actor, *, greedy: bool = False) -> EnvironmentEvaluation:
        levels, k = self.best.shape
        level, episodes = self._play(actor, greedy=greedy, levels=levels)
        if levels == 1:
            level = torch.zeros_like(level)  # environments without levels have the seed -1
        best = self._best_returns(level, episodes)
        share = self._shares(level, episodes, best)
        sums = torch.zeros(3, levels, 1 << self.environment.private_bits, k, dtype=torch.float64)
        tally(sums, level, episodes.setting, episodes.length, share)
        lengths = torch.tensor([self.environment.lengths]).expand(levels, -1)
        most = share.max().clamp_min(1).double()
        estimated = estimates(
            self._names(levels),
            Optima(self.reward.gamma, lengths, torch.full((levels,), k), best.double()),
            self.reward,
            sums[0].sum((1, 2)),
            sums,
            bounds=(torch.zeros(levels).double(), most.expand(levels)),
        )
        return EnvironmentEvaluation(**vars(estimated), best=best)

    def _names(self, levels: int) -> list[str]:
        if levels == 1:
            return [self.name]
        return [f"{self.name}, level {index}" for index in range(levels)]

    def _best_returns(self, level: Tensor, episodes: EndedEpisodes) -> Tensor:
        """Return m(l) [levels, k], with the largest return of this evaluation where training has none."""
        best = self.best
        place = level * best.shape[1] + episodes.length
        largest = torch.zeros_like(best).view(-1).scatter_reduce(0, place, episodes.coins.to(best.dtype), "amax")
        best = torch.where(best > 0, best, largest.view_as(best))  # [levels, k]
        return torch.where(best > 0, best, 1)  # without any return of a length, its share is 0

    def _shares(self, level: Tensor, episodes: EndedEpisodes, best: Tensor) -> Tensor:
        """Return the share of m(l) that each mini-episode collected [n]."""
        best_transform = self.environment.best
        if best_transform is None:
            return share_of_best(episodes.coins, episodes.best_return).clamp_max(1)
        share = share_of_best(episodes.coins, best[level, episodes.length].double())
        if best_transform.fixed is None:
            return share.clamp_max(1)
        return share

    def _play(self, actor: Actor, *, greedy: bool = False, levels: int = 1) -> tuple[Tensor, EndedEpisodes]:
        """Play mini-episodes; return their levels [n] and the mini-episodes."""
        environment = self.environment
        rng = torch.Generator().manual_seed(self.seed)
        collector = environment.collector(actor, greedy=greedy)
        slots = environment.env.batch_size.numel()
        episode_batches: list[EndedEpisodes] = []
        level_batches: list[Tensor] = []
        completed = 0
        while completed < self.mini_episodes or len(level_batches) * slots < levels:
            if isinstance(environment.ends, MetaEpisodes):
                environment.ends.first = len(level_batches) * slots
            batch = collector.collect(rng)
            by_setting = environment.private_bits > 0
            episodes = ended_episodes(batch, self.reward.gamma, environment.num_lengths, by_setting=by_setting)
            completed += len(episodes.slot)
            level = batch.get(LEVEL, None)
            if level is None:
                level_batches.append(torch.zeros_like(episodes.slot))
            else:
                level_batches.append(level[episodes.slot, episodes.time, 0])
            episode_batches.append(episodes)
        fields = zip(*episode_batches, strict=True)
        return torch.cat(level_batches), EndedEpisodes(*map(torch.cat, fields))


def usefulness_warning(evaluation: SampledEvaluation, name: str) -> str | None:
    """Return a warning if m(l) or the floor of the rewards must be wrong, which makes usefulness meaningless."""
    if not evaluation.outcome.coins.any():
        return f"every mini-episode of {name} has a return of 0, so usefulness says nothing; lower env.floor"
    usefulness = evaluation.means()["usefulness"]
    low, _ = evaluation.mean_ranges()["usefulness"]
    if low <= 1:
        return None
    return (
        f"usefulness {usefulness:.3f} of {name} is above 1: returns exceed m(l), the most that a length offers; raise "
        "the numbers of env.best (or of best_return), or leave env.best out"
    )
