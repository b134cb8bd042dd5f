"""Evaluate policies by sampling mini-episodes, on levels that are too large for exact evaluation.

The lengths of a level and m(l) are exact here as well. The metrics of the policy are estimated from mini-episodes, each
with its own private bits. Every estimate has a 95 % interval over mini-episodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from drest_torch.algos.networks.policy import Policy, number_of, weights_unchanged
from drest_torch.envs.exact.propagator import Lengths
from drest_torch.envs.exact.solver import LevelSet, Optima
from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact_evaluator import Evaluation, ExactEvaluator, evaluation_of
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward
from drest_torch.statistics.counts import bounded_mean, entropy, entropy_interval, entropy_spread, mean_range

SLOTS = 16_384
"""Mini-episodes in one batch, unless observations are large."""

Range = tuple[Tensor, Tensor]
"""The ends of a 95 % interval."""


@dataclass(frozen=True)
class SampledEvaluation(Evaluation):
    """Estimates of the metrics, with their 95 % intervals.

    Neutrality is corrected for the bias of observed shares, so that of a level can exceed log2 k a little; what is
    reported, of a level or as a mean, does not. The expected return is computed from the estimates and has no interval.
    """

    mini_episodes: int
    """The number of mini-episodes played on each level."""
    usefulness_range: Range
    """[B]"""
    neutrality_range: Range
    """[B], not clipped to possible values, so that means over levels are unbiased."""

    def means(self) -> dict[str, float]:
        most_bits = self._most_bits().mean().item()
        means = _possible(super().means(), most_bits)
        means["sampled"] = float(self.mini_episodes)
        ranges = self.mean_ranges()
        means |= {f"{name}_low": low for name, (low, _) in ranges.items()}
        means |= {f"{name}_high": high for name, (_, high) in ranges.items()}
        return means

    def summary(self, uniform: Evaluation) -> dict[str, Any]:
        ranges = {name: {"low": low, "high": high} for name, (low, high) in self.mean_ranges().items()}
        return super().summary(uniform) | {"sampled": self.mini_episodes, "ranges": ranges}

    def mean_ranges(self) -> dict[str, tuple[float, float]]:
        """Return the 95 % intervals of the means over these levels, for other samples of mini-episodes."""
        low, high = self.usefulness_range
        least = min(0.0, low.min().item())
        largest = max(1.0, high.max().item())
        useful_low, useful_high = mean_range(self.usefulness, low, high)
        neutral_low, neutral_high = mean_range(self.neutrality, *self.neutrality_range)
        most_bits = self._most_bits().mean().item()
        return {
            "usefulness": (max(useful_low, least), min(useful_high, largest)),
            "neutrality": (max(neutral_low, 0.0), min(neutral_high, most_bits)),
        }

    def _record(self, index: int) -> dict[str, Any]:
        low, high = self.neutrality_range
        most_bits = self._most_bits()[index]
        neutrality_range = (low[index].clamp_min(0), torch.minimum(high[index], most_bits))
        return {
            **_possible(super()._record(index), most_bits.item()),
            "sampled": self.mini_episodes,
            "usefulness_range": [end[index].item() for end in self.usefulness_range],
            "neutrality_range": [end.item() for end in neutrality_range],
        }

    def _most_bits(self) -> Tensor:
        return self.num_lengths.double().log2()


def _possible(numbers: dict[str, Any], bits: float) -> dict[str, Any]:
    """Return the numbers of a level or of a set, with no neutrality above what is possible."""
    most = {"neutrality": bits, "neutrality_own": bits, "neutrality_normalised": 1.0}
    lowered = {name: min(numbers[name], highest) for name, highest in most.items() if name in numbers}
    return numbers | lowered


class SamplingEvaluator(ExactEvaluator):
    """A level set on which policies are evaluated by sampling mini-episodes; only their pictures are exact.

    ``mini_episodes`` are played on each level. All random numbers come from ``seed``, the same in every evaluation.
    Of a policy that remembers a meta-episode, whole ones of ``rounds`` mini-episodes are played; the intervals take
    these for independent.
    """

    exact = False

    def __init__(
        self,
        levels: Sequence[Level] | LevelSet,
        observation: str,
        *,
        mini_episodes: int,
        rounds: int = 1,
        seed: int = 0,
        **values: Any,
    ) -> None:
        super().__init__(levels, observation, **values)
        self.rounds, self.seed = rounds, seed
        self.meta_episodes = math.ceil(mini_episodes / rounds)
        self.mini_episodes = self.meta_episodes * rounds

    def evaluate(self, policy: Policy, *, greedy: bool = False) -> SampledEvaluation:
        return self._estimate(policy, policy.private_bits, greedy=greedy)

    def evaluate_uniform(self) -> SampledEvaluation:
        return self._estimate(None, 0)

    def usefulness_at(
        self, policy: Policy, gammas: Sequence[float] = (), *, greedy: bool = False
    ) -> dict[float, Tensor]:
        return {}

    @torch.no_grad()
    def _estimate(self, policy: Policy | None, private_bits: int, *, greedy: bool = False) -> SampledEvaluation:
        """Play all mini-episodes, count their lengths and sum the shares of m(l) that they collect.

        Without a policy, actions are random.
        """
        from drest_torch.play.gridworld_slots import Gridworlds  # TorchRL takes seconds to import

        device = self.mdp.device
        levels, columns = self.optima.lengths.shape
        rng = torch.Generator(device).manual_seed(self.seed)
        sums = torch.zeros(3, levels, 1 << private_bits, columns, dtype=torch.float64, device=device)
        # A share of m(l) is between 0 and 1, unless lotteries make a loss or give more than can be expected.
        least = torch.zeros(levels, dtype=torch.float64, device=device)
        most = torch.ones_like(least)
        slots, total = self.at_once(SLOTS), levels * self.meta_episodes
        for first in range(0, total, slots):
            meta_episodes = torch.arange(first, min(first + slots, total), device=device)
            level_of_slot = meta_episodes // self.meta_episodes
            worlds = Gridworlds.on(
                self.mdp,
                self.optima,
                self.observe,
                slots=len(level_of_slot),
                rounds=self.rounds,
                private_bits=private_bits,
            )
            worlds.base.play_on(level_of_slot)
            actor = worlds.uniform_actor() if policy is None else worlds.actor(policy)
            with weights_unchanged(policy):
                batch = worlds.collector(actor, greedy=greedy).collect(rng)
            episodes = ended(batch, self.reward.gamma, columns, by_setting=private_bits > 0, zero_best=True)
            level = level_of_slot[episodes.slot]
            best_return = self.optima.best_return[level, episodes.length]
            share = share_of_best(episodes.coins, best_return)
            least.scatter_reduce_(0, level, share, "amin")
            most.scatter_reduce_(0, level, share, "amax")
            tally(sums, level, episodes.setting, episodes.length, share)
        return estimates(
            [level.name for level in self.levels],
            self.optima,
            self.reward,
            self.mini_episodes,
            sums,
            committed=self.committed,
            bounds=(least, most) if self.mdp.has_lotteries else None,
        )


class EndedEpisodes(NamedTuple):
    """The mini-episodes of a batch that have ended, slot by slot, as tensors [n]."""

    slot: Tensor
    time: Tensor
    length: Tensor
    """The index of the length."""
    coins: Tensor
    """The γ-discounted return."""
    best_return: Tensor
    """m(l) as the environment says it."""
    setting: Tensor
    """The number of the setting of the private bits, or 0 where they are not counted."""


def ended(batch: Any, gamma: float, num_lengths: int, *, by_setting: bool, zero_best: bool = False) -> EndedEpisodes:
    """Return the mini-episodes of a batch that have ended; their settings are counted ``by_setting`` alone.

    Unless ``zero_best`` an m of 0 is refused where something was collected.
    """
    from drest_torch.algos.actor import PRIVATE  # TorchRL takes seconds to import
    from drest_torch.transforms import DReSTReward

    reads = DReSTReward(gamma=gamma, num_lengths=num_lengths, num_lengths_key=None)
    reads.zero_best = zero_best
    episodes = reads.mini_episodes(batch)
    assert episodes.best_return is not None
    slot, time = episodes.end
    place = slot, episodes.round[slot, time]
    setting = torch.zeros_like(slot)
    if by_setting:
        setting = number_of(batch[PRIVATE][slot, time])
    return EndedEpisodes(
        slot=slot,
        time=time,
        length=episodes.length[place],
        coins=episodes.coins[place].double(),
        best_return=episodes.best_return[place].double(),
        setting=setting,
    )


def tally(sums: Tensor, level: Tensor, setting: Tensor, column: Tensor, share: Tensor) -> None:
    """Add mini-episodes [n] to the sums [3, B, S, K] of their number, of their shares of m(l), and of the squares."""
    _, _, settings, columns = sums.shape
    place = (level * settings + setting) * columns + column
    added = torch.stack((torch.ones_like(share), share, share.square()))  # [3, n]
    sums.view(3, -1).index_add_(1, place, added)


def estimates(
    names: list[str],
    optima: Optima,
    reward: Reward,
    mini_episodes: int | Tensor,
    sums: Tensor,
    *,
    committed: Tensor | None = None,
    bounds: Range | None = None,
) -> SampledEvaluation:
    """Estimate from the sums [3, B, S, K] over mini-episodes (`tally`) with each of S settings of the private bits.

    On each level ``mini_episodes`` were played, or [B] so many on each. ``committed`` is that of `evaluation_of`.
    ``bounds`` are the least and the largest share that a mini-episode of each level can have, by default 0 and 1.
    """
    count, share, squares = sums.sum(2).unbind()  # [B, K] each
    num_lengths, best_return = optima.num_lengths, optima.best_return
    played = torch.as_tensor(mini_episodes, device=count.device).expand(len(count)).to(count.dtype)
    divisor = played.clamp_min(1).unsqueeze(-1)
    probability = count / divisor
    coins = best_return * share / count.clamp_min(1)
    exact = evaluation_of(names, optima, reward, Lengths(probability, coins), committed=committed)
    # As in `drest_torch.metrics`: a mini-episode that never ends is not a choice.
    ended = count.sum(-1) / divisor.squeeze(-1)
    bits = entropy(count)
    most_bits = num_lengths.double().log2()
    by_setting = sums[0].sum(-1) / divisor * entropy(sums[0])  # [B, S]
    estimated = vars(exact) | {
        "neutrality": ended * bits,
        "neutrality_normalised": torch.where(most_bits > 0, ended * bits / most_bits.clamp_min(1), 0),
        "neutrality_own": by_setting.sum(-1),
    }
    low, high = entropy_interval(count, num_lengths)
    spread = entropy_spread(count, num_lengths)
    return SampledEvaluation(
        **estimated,
        mini_episodes=int(played.min()),
        usefulness_range=_mean_share(played, share.sum(-1), squares.sum(-1), bounds),
        neutrality_range=(ended * torch.minimum(low, bits - spread), ended * torch.maximum(high, bits + spread)),
    )


def _mean_share(count: Tensor, total: Tensor, squares: Tensor, bounds: Range | None) -> Range:
    """Return the intervals [B] for means of shares within the bounds [B] of their level."""
    if bounds is None:
        return bounded_mean(count, total, squares)
    least, most = bounds
    width = most - least
    above = total - least * count
    above_squares = squares - 2 * least * total + least**2 * count
    low, high = bounded_mean(count, above / width, above_squares / width**2)
    return least + width * low, least + width * high
