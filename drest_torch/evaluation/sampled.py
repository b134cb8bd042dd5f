"""What a policy does on a level set, by playing it: for levels that are too large to be evaluated exactly.

The lengths of a level and m(l) are exact here as well. What the policy does with them is estimated from mini-episodes,
each with noise of its own, and every estimate comes with a 95 % interval over the mini-episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from algos.generators import Draws
from algos.networks.policy import Policy
from drest_torch.evaluation.exact import Evaluation, Prepared
from drest_torch.metrics import share_of_best
from drest_torch.rollout.play import draw_noise, ticks
from drest_torch.statistics.counts import bounded_mean, entropy, entropy_interval, entropy_spread, mean_range
from envs.dynamics.mdp import NUM_ACTIONS
from envs.exact.propagator import Lengths
from envs.levels import Level

SLOTS = 65_536
"""Mini-episodes that are played side by side, unless observations are large."""
PATIENCE = 100
"""On a clock that counts moves a mini-episode may not end; it is given up after so many actions for each tick."""

Act = Callable[[Tensor, Tensor | None], Tensor]
"""Logits of the actions, from observations and private noise."""
Range = tuple[Tensor, Tensor]
"""The ends of a 95 % interval."""


@dataclass(frozen=True)
class Sampled(Evaluation):
    """Estimates of the metrics, and the intervals around them.

    Neutrality is without the bias of observed shares, and so may be a little more than log2 k. The expected return is
    that of the estimates, and has no interval.
    """

    mini_episodes: int
    """Played on each level."""
    usefulness_range: Range
    """[B]"""
    neutrality_range: Range
    """[B], not limited to what is possible, so that means of them are right."""
    probability_range: Range
    """[B, K] of P(L = l)."""
    coins_range: Range
    """[B, K] of E[C | L = l]."""

    def means(self) -> dict[str, float]:
        ranges = self.mean_ranges()
        return {
            **super().means(),
            "sampled": float(self.mini_episodes),
            **{f"{name}_low": low for name, (low, _) in ranges.items()},
            **{f"{name}_high": high for name, (_, high) in ranges.items()},
        }

    def mean_ranges(self) -> dict[str, tuple[float, float]]:
        """The 95 % intervals of the means over levels: the levels stay, the mini-episodes could have been others."""
        most = self._most_bits().mean().item()
        useful, neutral = (
            mean_range(estimate, *ends)
            for estimate, ends in (
                (self.usefulness, self.usefulness_range),
                (self.neutrality, self.neutrality_range),
            )
        )
        return {
            "usefulness": (max(useful[0], 0.0), min(useful[1], 1.0)),
            "neutrality": (max(neutral[0], 0.0), min(neutral[1], most)),
        }

    def records(self) -> list[dict[str, Any]]:
        low, high = self.neutrality_range
        neutral = (low.clamp_min(0), torch.minimum(high, self._most_bits()))

        def at(ends: Range, *index: int) -> list[float]:
            return [each[index].item() for each in ends]

        return [
            {
                **record,
                "sampled": self.mini_episodes,
                "usefulness_range": at(self.usefulness_range, i),
                "neutrality_range": at(neutral, i),
                "length_probabilities_range": {
                    length: at(self.probability_range, i, column)
                    for column, length in enumerate(record["length_probabilities"])
                },
            }
            for i, record in enumerate(super().records())
        ]

    def _most_bits(self) -> Tensor:
        return self.num_lengths.double().log2()


class Sampler(Prepared):
    """Evaluates by playing so many mini-episodes on each level, drawn from ``seed``, the same in every evaluation."""

    exact = False

    def __init__(
        self, levels: Sequence[Level], observation: str, *, mini_episodes: int, seed: int = 0, **values: Any
    ) -> None:
        super().__init__(levels, observation, **values)
        self.mini_episodes, self.seed = mini_episodes, seed

    def evaluate(self, policy: Policy, *, greedy: bool = False) -> Sampled:
        return self._played(_greedy(policy) if greedy else policy, policy.noise)

    def evaluate_uniform(self) -> Sampled:
        return self._played(lambda seen, _: torch.zeros(len(seen), NUM_ACTIONS, device=seen.device), 0)

    @torch.no_grad()
    def _played(self, act: Act, noise: int) -> Sampled:
        """Count the lengths and add up the share of m(l) that was collected."""
        device, (levels, columns) = self.mdp.device, self.optima.lengths.shape
        draws = Draws.of(torch.Generator(device).manual_seed(self.seed))
        sums = torch.zeros(3, levels * columns, dtype=torch.float64, device=device)
        slots = self.at_once(SLOTS)
        for first in range(0, levels * self.mini_episodes, slots):
            last = min(first + slots, levels * self.mini_episodes)
            level = torch.arange(first, last, device=device) // self.mini_episodes
            length, coins = self._play(act, level, draws, noise)
            match = self.optima.lengths[level] == length.unsqueeze(-1)
            slot, column = (match & (length > 0).unsqueeze(-1)).nonzero().unbind(-1)
            place = level[slot] * columns + column
            share = share_of_best(coins[slot], self.optima.best_return.reshape(-1)[place])
            sums.index_add_(1, place, torch.stack((torch.ones_like(share), share, share.square())))
        return self._estimates(*sums.reshape(3, levels, columns))

    def _play(self, act: Act, level: Tensor, draws: Draws, noise: int) -> tuple[Tensor, Tensor]:
        """The lengths and discounted coins of a mini-episode of each slot; length 0 where it does not end."""
        bits = self.noise_kind == "bits"
        given = draw_noise(draws, len(level), noise, bits)
        length = torch.zeros_like(level)
        coins = torch.zeros(len(level), dtype=self.mdp.coin.dtype, device=level.device)
        playing = ticks(self.mdp, self.observe, act, level, given, draws, noise_bits=bits)
        for tick in islice(playing, PATIENCE * self.mdp.max_time):
            coins[tick.slot] += tick.step.coin * self.reward.gamma**tick.before.ticks
            length[tick.slot] = tick.step.length * tick.step.mini_done
        return length, coins

    def _estimates(self, count: Tensor, share: Tensor, squares: Tensor) -> Sampled:
        """From how often each length was chosen, and the sums of the shares of m(l) collected and of their squares."""
        best, k = self.optima.best_return, self.optima.num_lengths
        played = torch.full_like(count[:, 0], self.mini_episodes)
        probability, coins = count / self.mini_episodes, best * share / count.clamp_min(1)
        bits, spread = entropy(count), entropy_spread(count, k)
        low, high = entropy_interval(count, k)
        low_share, high_share = bounded_mean(count, share, squares)
        # As in `drest_torch.metrics`: what never ends is no choice.
        ends = count.sum(-1) / self.mini_episodes
        exact = super().metrics(Lengths(probability, coins))
        most = k.double().log2()
        return Sampled(
            **{field.name: getattr(exact, field.name) for field in fields(exact)}
            | {
                "neutrality": ends * bits,
                "neutrality_normalised": torch.where(most > 0, ends * bits / most.clamp_min(1), 0),
            },
            mini_episodes=self.mini_episodes,
            usefulness_range=bounded_mean(played, share.sum(-1), squares.sum(-1)),
            neutrality_range=(ends * torch.minimum(low, bits - spread), ends * torch.maximum(high, bits + spread)),
            probability_range=bounded_mean(played.unsqueeze(-1).expand_as(count), count, count),
            coins_range=(best * low_share, best * high_share),
        )


def _greedy(policy: Policy) -> Act:
    def act(observation: Tensor, noise: Tensor | None) -> Tensor:
        return torch.nn.functional.one_hot(policy(observation, noise).argmax(-1), NUM_ACTIONS).float().log()

    return act
