"""Sampled evaluation of policies, for levels that are too large for exact evaluation.

The lengths of a level and m(l) remain exact. The metrics of the policy are estimated from mini-episodes, each with its
own private bits. Every estimate has a 95 % interval over mini-episodes.
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
"""Mini-episodes in a batch, unless observations are large."""

Range = tuple[Tensor, Tensor]
"""Lower and upper ends of 95 % intervals."""


@dataclass(frozen=True)
class SampledEvaluation(Evaluation):
    """Estimates of the metrics, with their 95 % intervals.

    Neutrality is corrected for the bias of observed frequencies, so the tensor can slightly exceed log2 k. Reported
    values, of a level or as a mean, are clipped to it. The expected return is computed from the estimates and has no
    interval.
    """

    mini_episodes: int
    """Mini-episodes played on each level."""
    usefulness_range: Range
    """[B] 95 % intervals."""
    neutrality_range: Range
    """[B] 95 % intervals, not clipped to possible values, so that means over levels are unbiased."""

    def means(self) -> dict[str, float]:
        most_bits = self._most_bits().mean().item()
        means = _clipped(super().means(), most_bits)
        means["sampled"] = float(self.mini_episodes)
        ranges = self.mean_ranges()
        means |= {f"{name}_low": low for name, (low, _) in ranges.items()}
        means |= {f"{name}_high": high for name, (_, high) in ranges.items()}
        return means

    def summary(self, uniform: Evaluation) -> dict[str, Any]:
        ranges = {name: {"low": low, "high": high} for name, (low, high) in self.mean_ranges().items()}
        return super().summary(uniform) | {"sampled": self.mini_episodes, "ranges": ranges}

    def mean_ranges(self) -> dict[str, tuple[float, float]]:
        """Return 95 % intervals of the means over these levels, with respect to the sampling of mini-episodes."""
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
            **_clipped(super()._record(index), most_bits.item()),
            "sampled": self.mini_episodes,
            "usefulness_range": [end[index].item() for end in self.usefulness_range],
            "neutrality_range": [end.item() for end in neutrality_range],
        }

    def _most_bits(self) -> Tensor:
        return self.num_lengths.double().log2()


def _clipped(numbers: dict[str, Any], bits: float) -> dict[str, Any]:
    """Return the numbers of a level or of a set with neutrality clipped to its maximum."""
    maxima = {"neutrality": bits, "neutrality_own": bits, "neutrality_normalised": 1.0}
    clipped = {name: min(numbers[name], maximum) for name, maximum in maxima.items() if name in numbers}
    return numbers | clipped


class SamplingEvaluator(ExactEvaluator):
    """A level set for sampled evaluation; only pictures of policies are exact.

    ``mini_episodes`` are played on each level. Every evaluation uses the same ``seed``.
    For policies with memory across a meta-episode, whole meta-episodes of ``rounds`` mini-episodes are played; the
    intervals treat these mini-episodes as independent.
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
        """Play all mini-episodes and estimate the metrics from their lengths and shares of m(l).

        Without a policy, actions are random.
        """
        from drest_torch.play.gridworld_slots import Gridworlds  # TorchRL takes seconds to import

        device = self.mdp.device
        levels, columns = self.optima.lengths.shape
        rng = torch.Generator(device).manual_seed(self.seed)
        sums = torch.zeros(3, levels, 1 << private_bits, columns, dtype=torch.float64, device=device)
        # A share of m(l) is between 0 and 1, except with lotteries: they can lose coins or exceed their expectation.
        least = torch.zeros(levels, dtype=torch.float64, device=device)
        most = torch.ones_like(least)
        slots, total = self.batch_size(SLOTS), levels * self.meta_episodes
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
            actor = worlds.uniform_actor()
            if policy is not None:
                actor = worlds.actor(policy)
            with weights_unchanged(policy):
                batch = worlds.collector(actor, greedy=greedy).collect(rng)
            episodes = ended_episodes(batch, self.reward.gamma, columns, by_setting=private_bits > 0, zero_best=True)
            level = level_of_slot[episodes.slot]
            best_return = self.optima.best_return[level, episodes.length]
            share = share_of_best(episodes.coins, best_return)  # [n]
            least.scatter_reduce_(0, level, share, "amin")
            most.scatter_reduce_(0, level, share, "amax")
            tally(sums, level, episodes.setting, episodes.length, share)
        bounds = None
        if self.mdp.has_lotteries:
            bounds = (least, most)
        return estimates(
            [level.name for level in self.levels],
            self.optima,
            self.reward,
            self.mini_episodes,
            sums,
            committed=self.committed,
            bounds=bounds,
        )


class EndedEpisodes(NamedTuple):
    """Completed mini-episodes of a batch in the order of the slots, as tensors [n]."""

    slot: Tensor
    time: Tensor
    length: Tensor
    """Index of the length."""
    coins: Tensor
    """γ-discounted return."""
    best_return: Tensor
    """m(l) as reported by the environment."""
    setting: Tensor
    """Index of the private-bit setting; 0 if settings are not distinguished."""


def ended_episodes(
    batch: Any, gamma: float, num_lengths: int, *, by_setting: bool, zero_best: bool = False
) -> EndedEpisodes:
    """Return the completed mini-episodes of a batch, with their private-bit settings if ``by_setting``.

    Raise if m(l) is 0 for a mini-episode with coins, unless ``zero_best`` is true.
    """
    from drest_torch.algos.actor import PRIVATE  # TorchRL takes seconds to import
    from drest_torch.transforms import DReSTReward

    reward = DReSTReward(gamma=gamma, num_lengths=num_lengths, num_lengths_key=None)
    reward.zero_best = zero_best
    episodes = reward.mini_episodes(batch)
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
    """Add mini-episodes [n] to the sums [3, B, S, K] of counts, shares of m(l) and squared shares, in place."""
    _, _, settings, columns = sums.shape
    place = (level * settings + setting) * columns + column
    terms = torch.stack((torch.ones_like(share), share, share.square()))  # [3, n]
    sums.view(3, -1).index_add_(1, place, terms)


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
    """Estimate the metrics from the sums [3, B, S, K] of `tally` over mini-episodes, with S private-bit settings.

    ``mini_episodes`` is the number on every level, or a tensor [B]. ``committed`` is passed to `evaluation_of`.
    ``bounds`` [B] are the smallest and the largest possible share of m(l) on each level; default: 0 and 1.
    """
    count, share, squares = sums.sum(2).unbind()  # [B, K] each
    num_lengths, best_return = optima.num_lengths, optima.best_return
    played = torch.as_tensor(mini_episodes, device=count.device).expand(len(count)).to(count.dtype)
    divisor = played.clamp_min(1).unsqueeze(-1)
    probability = count / divisor
    coins = best_return * share / count.clamp_min(1)
    exact = evaluation_of(names, optima, reward, Lengths(probability, coins), committed=committed)
    # As in `drest_torch.metrics`, mini-episodes that never end count as no choice of a length.
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
    """Return the intervals [B] of the mean share, with the bounds [B] of each level."""
    if bounds is None:
        return bounded_mean(count, total, squares)
    least, most = bounds
    width = most - least
    above = total - least * count
    above_squares = squares - 2 * least * total + least**2 * count
    low, high = bounded_mean(count, above / width, above_squares / width**2)
    return least + width * low, least + width * high
