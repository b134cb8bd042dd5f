"""Evaluate policies in an environment that is no gridworld, by sampling mini-episodes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drest_torch.algos.generators import Generators
from drest_torch.algos.networks.policy import Policy
from drest_torch.evaluation.sampled import SampledEvaluation, estimates
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward
from drest_torch.rollout.torchrl import Environment, steps
from drest_torch.statistics.counts import entropy

Act = Callable[[Tensor, Tensor | None], Tensor]


class EnvironmentEvaluator:
    """Plays so many mini-episodes with a policy, always from the same seeds, and estimates its metrics.

    ``best`` [k] is m(l), which is that of training: what is collected here does not raise it, and counts at most as m.
    """

    def __init__(
        self, environment: Environment, *, name: str, mini_episodes: int, reward: Reward, floor: float, seed: int
    ) -> None:
        self.environment, self.name, self.mini_episodes = environment, name, mini_episodes
        self.reward, self.floor, self.seed = reward, floor, seed

    def evaluate(self, policy: Policy, best: Tensor) -> SampledEvaluation:
        """Return the metrics of a policy."""
        return self._estimate(policy, best, policy.private_bits)

    def evaluate_uniform(self, best: Tensor) -> SampledEvaluation:
        """Return the metrics of actions at random, which ask for a delay in about half of the mini-episodes."""
        offset = self.environment.distribution.offset(self.environment.ask)
        return self._estimate(lambda observation, _: offset.expand(len(observation), -1), best, 0)

    @torch.no_grad()
    def _estimate(self, act: Act, best: Tensor, private_bits: int) -> SampledEvaluation:
        length, coins, setting = self._play(act, private_bits)
        k, settings = self.environment.num_lengths, 1 << private_bits
        share = share_of_best(coins, best[length].double()).clamp_max(1)
        sums = torch.zeros(3, settings * k, dtype=torch.float64)
        sums.index_add_(1, setting * k + length, torch.stack((torch.ones_like(share), share, share.square())))
        count, total, squares = sums.reshape(3, 1, settings, k).unbind()
        own = (count.sum(-1) / len(length) * entropy(count.squeeze(0)).unsqueeze(0)).sum(-1)
        return estimates(
            [self.name],
            torch.tensor([self.environment.lengths]),
            torch.tensor([k]),
            best.double().unsqueeze(0),
            self.reward,
            len(length),
            *(sums.sum(1) for sums in (count, total, squares)),
            own=own,
        )

    def _play(self, act: Act, private_bits: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the index of the length, the return, and the setting of the private bits of each mini-episode."""
        env, rng = self.environment.env, Generators.of(torch.Generator().manual_seed(self.seed))
        slots = env.batch_size.numel()
        coins, tick = torch.zeros(slots, dtype=torch.float64), torch.zeros(slots, dtype=torch.int64)
        places, slot = 1 << torch.arange(private_bits), torch.arange(slots)
        played: list[Tensor] = []
        before = 0
        while before < self.mini_episodes:  # once, unless the environment has meta-episodes of its own
            ends = 0
            for step in steps(
                env, self.environment.flatten, act, self.environment.distribution, rng, private_bits=private_bits
            ):
                coins += step.after.get("reward").reshape(-1).double() * self.reward.gamma**tick
                tick += 1
                if (ended := step.flag("mini_done") & step.playing).any():
                    # Which ones count is known before they are played: the first to end would be the shortest.
                    number = before + step.before.get("mini_idx").reshape(-1) * slots + slot
                    counts = ended & (number < self.mini_episodes)
                    setting = torch.zeros_like(tick)
                    if step.private_bits is not None:
                        setting = (step.private_bits.long() * places).sum(-1)
                    length = step.after.get("mini_len").reshape(-1)
                    played.append(torch.stack((length[counts].double(), coins[counts], setting[counts].double())))
                    coins[ended], tick[ended] = 0, 0
                    ends += int(ended.sum())
            before += ends
        length, total, setting = torch.cat(played, 1).unbind()
        return length.long(), total, setting.long()
