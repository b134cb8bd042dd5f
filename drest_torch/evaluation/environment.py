"""Evaluate policies in an environment that is no gridworld, by sampling mini-episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.generators import Generators
from drest_torch.algos.networks.policy import Policy
from drest_torch.evaluation.sampled import SampledEvaluation, estimates
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward
from drest_torch.rollout.torchrl import Environment, steps
from drest_torch.statistics.counts import entropy
from drest_torch.transforms.base import LEVEL

Act = Callable[[Tensor, Tensor | None], Tensor]


class EnvironmentEvaluator:
    """Plays the mini-episodes of an environment with a policy, always from the same seeds, and estimates its metrics.

    All that a meta-episode of each slot holds are played, and so again until they are at least ``mini_episodes``.
    ``best`` [levels, k] is m(l), as training knows it: what is collected here does not raise it. Where m(l) is the
    largest return seen, a return counts at most as m; where it is given, it is a mean, which single returns exceed.
    """

    def __init__(
        self, environment: Environment, *, name: str, reward: Reward, seed: int, mini_episodes: int = 1
    ) -> None:
        self.environment, self.name, self.reward, self.seed = environment, name, reward, seed
        self.mini_episodes = mini_episodes

    def evaluate(self, policy: Policy, best: Tensor) -> SampledEvaluation:
        """Return the metrics of a policy."""
        return self._estimate(policy, best, policy.private_bits)

    def evaluate_uniform(self, best: Tensor) -> SampledEvaluation:
        """Return the metrics of actions at random, which ask for a delay in about half of the mini-episodes."""
        offset = self.environment.distribution.offset(self.environment.ask)
        return self._estimate(lambda observation, _: offset.expand(len(observation), -1), best, 0)

    @torch.no_grad()
    def _estimate(self, act: Act, best: Tensor, private_bits: int) -> SampledEvaluation:
        (levels, k), settings = best.shape, 1 << private_bits
        level, length, setting, coins, own_best = self._play(act, private_bits)
        level = level if levels > 1 else torch.zeros_like(level)  # without levels of their own, seeds are -1
        most = best[level, length].double() if self.environment.best is not None else own_best
        share = share_of_best(coins, most)
        if self.environment.best is None or self.environment.best.given is None:
            share = share.clamp_max(1)
        sums = torch.zeros(3, levels * settings * k, dtype=torch.float64)
        place = (level * settings + setting) * k + length
        sums.index_add_(1, place, torch.stack((torch.ones_like(share), share, share.square())))
        count, total, squares = sums.reshape(3, levels, settings, k).unbind()
        played = count.sum((1, 2))
        given = torch.stack([entropy(of_level) for of_level in count])
        return estimates(
            [self.name] if levels == 1 else [f"{self.name}, level {index}" for index in range(levels)],
            torch.tensor([self.environment.lengths]).expand(levels, -1),
            torch.full((levels,), k),
            best.double(),
            self.reward,
            played,
            *(sums.sum(1) for sums in (count, total, squares)),
            bounds=(torch.zeros(levels).double(), share.max().clamp_min(1).double().expand(levels)),
            own=(count.sum(-1) / played.clamp_min(1).unsqueeze(-1) * given).sum(-1),
        )

    def _play(self, act: Act, private_bits: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the level, the index of the length, the setting of the bits, the return, and m(l) as the environment
        says it, of each mini-episode."""
        env, rng = self.environment.env, Generators.of(torch.Generator().manual_seed(self.seed))
        slots = env.batch_size.numel()
        coins, tick = torch.zeros(slots, dtype=torch.float64), torch.zeros(slots, dtype=torch.int64)
        zero, places = torch.zeros_like(tick), 1 << torch.arange(private_bits)
        numbers: list[Tensor] = []
        returns: list[Tensor] = []
        bests: list[Tensor] = []
        flatten, distribution = self.environment.flatten, self.environment.distribution
        while sum(map(len, returns)) < self.mini_episodes:
            for step in steps(env, flatten, act, distribution, rng, private_bits=private_bits):
                coins += step.after.get("reward").reshape(-1).double() * self.reward.gamma**tick
                tick += 1
                if (ended := step.flag("mini_done") & step.playing).any():
                    level = zero if (seed := step.before.get(LEVEL, None)) is None else seed.reshape(-1)
                    setting = zero if step.private_bits is None else (step.private_bits.long() * places).sum(-1)
                    length = step.after.get("mini_len").reshape(-1)
                    numbers.append(torch.stack((level, length, setting))[:, ended])
                    returns.append(coins[ended])
                    bests.append(step.after.get("best_return").reshape(-1)[ended].double())
                    coins[ended], tick[ended] = 0, 0
        level, length, setting = torch.cat(numbers, 1)
        return level, length, setting, torch.cat(returns), torch.cat(bests)


def known(best: Tensor) -> Tensor:
    """Return m(l), with 1 for lengths that were not seen: their returns are 0."""
    return torch.where(best > 0, best, 1)


def records(evaluation: SampledEvaluation, best: Tensor) -> list[dict[str, Any]]:
    """Return one JSON object for each level, with the return given each length and m(l) [levels, k]."""
    columns = {"return_given_length": evaluation.found.coins, "best_return": best}
    return [
        record
        | {
            key: dict(zip(map(str, evaluation.lengths[i].tolist()), values[i].tolist(), strict=True))
            for key, values in columns.items()
        }
        for i, record in enumerate(evaluation.records())
    ]
