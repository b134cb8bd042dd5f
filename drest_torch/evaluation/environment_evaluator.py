"""Evaluate policies in an environment that is no gridworld, by sampling mini-episodes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from drest_torch.algos.actor import Actor
from drest_torch.collector import Environment
from drest_torch.envs.exact.solver import Optima
from drest_torch.evaluation.sampled import SampledEvaluation, ended, estimates, tally
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward
from drest_torch.transforms import MetaEpisodes
from drest_torch.transforms.base import LEVEL


@dataclass(frozen=True)
class EnvironmentEvaluation(SampledEvaluation):
    """Estimates of the metrics, with the m(l) that returns were divided by."""

    best: Tensor
    """[levels, k]"""

    def means(self) -> dict[str, float]:
        chances = zip(self.lengths[0].tolist(), self.found.probability.mean(0).tolist(), strict=True)
        return super().means() | {f"p_length/{length}": chance for length, chance in chances}

    def records(self) -> list[dict[str, Any]]:
        lengths = [str(length) for length in self.lengths[0].tolist()]
        columns = {"return_given_length": self.found.coins.tolist(), "best_return": self.best.tolist()}
        return [
            record | {key: dict(zip(lengths, values[i], strict=True)) for key, values in columns.items()}
            for i, record in enumerate(super().records())
        ]


class EnvironmentEvaluator:
    """Plays the mini-episodes of an environment with a policy, always from the same seeds, and estimates its metrics.

    All that a meta-episode of each slot holds are played, and so again until they are at least ``mini_episodes``.
    Levels are dealt to the slots in turn, and each is played.
    ``best`` [levels, k] is m(l), as training knows it: what is collected here does not raise it. Where m(l) is the
    largest return seen, a return counts at most as m; where training has seen none (0), m(l) is the largest one here.
    Where it is given, it is a mean, which single returns exceed.
    """

    def __init__(
        self, environment: Environment, best: Tensor, *, name: str, reward: Reward, seed: int, mini_episodes: int = 1
    ) -> None:
        self.environment, self.best, self.name, self.reward, self.seed = environment, best, name, reward, seed
        self.mini_episodes = mini_episodes

    def evaluate(self, policy: nn.Module, *, greedy: bool = False) -> EnvironmentEvaluation:
        """Return the metrics of a policy."""
        return self._estimate(self.environment.actor(policy), greedy=greedy)

    def evaluate_uniform(self) -> EnvironmentEvaluation:
        """Return the metrics of actions at random, which ask for a delay in about half of the mini-episodes."""
        return self._estimate(self.environment.uniform_actor())

    def summarised(self, policy: nn.Module, *, greedy: bool = False) -> tuple[EnvironmentEvaluation, dict[str, Any]]:
        """Return the metrics of a policy and the numbers of a summary; say so if its usefulness says nothing."""
        uniform = self.evaluate_uniform()
        evaluation = self.evaluate(policy, greedy=greedy)
        if sentence := doubt(evaluation, self.name):
            print(f"drest_torch: {sentence}", file=sys.stderr)
        return evaluation, evaluation.summary(uniform)

    @torch.no_grad()
    def _estimate(self, actor: Actor, *, greedy: bool = False) -> EnvironmentEvaluation:
        best = self.best
        (levels, k), settings = best.shape, 1 << self.environment.private_bits
        level, length, coins, own_best, setting = self._play(actor, greedy, levels)
        level = level if levels > 1 else torch.zeros_like(level)  # without levels of their own, seeds are -1
        seen = torch.zeros_like(best).view(-1).scatter_reduce(0, level * k + length, coins.to(best.dtype), "amax")
        best = torch.where(best > 0, best, seen.view_as(best))
        best = torch.where(best > 0, best, 1)  # the returns of a length that nobody has seen are 0
        most = best[level, length].double() if self.environment.best is not None else own_best
        share = share_of_best(coins, most)
        if self.environment.best is None or self.environment.best.given is None:
            share = share.clamp_max(1)
        sums = torch.zeros(3, levels, settings, k, dtype=torch.float64)
        tally(sums, level, setting, length, share)
        lengths = torch.tensor([self.environment.lengths]).expand(levels, -1)
        found = estimates(
            [self.name] if levels == 1 else [f"{self.name}, level {index}" for index in range(levels)],
            Optima(self.reward.gamma, lengths, torch.full((levels,), k), best.double()),
            self.reward,
            sums[0].sum((1, 2)),
            sums,
            bounds=(torch.zeros(levels).double(), share.max().clamp_min(1).double().expand(levels)),
        )
        return EnvironmentEvaluation(**vars(found), best=best)

    def _play(self, actor: Actor, greedy: bool = False, levels: int = 1) -> tuple[Tensor, ...]:
        """Return the level of each mini-episode, and what `ended` says of it besides its slot and time."""
        rng, collector = torch.Generator().manual_seed(self.seed), self.environment.collector(actor, greedy=greedy)
        found: list[tuple[Tensor, ...]] = []
        played, slots, ends = 0, self.environment.env.batch_size.numel(), self.environment.ends
        while played < self.mini_episodes or len(found) * slots < levels:
            if isinstance(ends, MetaEpisodes):
                ends.first = len(found) * slots
            batch = collector.collect(rng)
            k, by_setting = self.environment.num_lengths, self.environment.private_bits > 0
            slot, time, *episodes = ended(batch, self.reward.gamma, k, by_setting=by_setting)
            played += len(slot)
            level = batch.get(LEVEL, None)
            found.append((torch.zeros_like(slot) if level is None else level[slot, time, 0], *episodes))
        return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def doubt(evaluation: SampledEvaluation, name: str) -> str | None:
    """Return a sentence if the usefulness says nothing, as m(l) or the floor of the rewards must be wrong."""
    if not evaluation.found.coins.any():
        return f"every mini-episode of {name} has a return of 0, so usefulness says nothing; lower env.floor"
    usefulness, (low, _) = evaluation.means()["usefulness"], evaluation.mean_ranges()["usefulness"]
    if low <= 1:
        return None
    return (
        f"usefulness {usefulness:.3f} of {name} is above 1: returns exceed m(l), the most that a length offers; raise "
        "the numbers of env.best (or of best_return), or leave env.best out"
    )
