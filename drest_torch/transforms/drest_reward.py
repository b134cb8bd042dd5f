"""The DReST reward as a TorchRL transform, for any environment with mini-episodes."""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data import Categorical, Composite, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from drest_torch.counting import count_of_chosen, same_length_in_group
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from drest_torch.transforms.base import (
    Entries,
    StatefulTransform,
    check_whole,
    column,
    innermost,
    whole,
)
from drest_torch.transforms.best_return import GAMMA
from drest_torch.transforms.cuts import refuse_parts, warn_of_reset, warn_of_single_episodes, warn_of_unfinished
from drest_torch.transforms.declared import RequiredEntry, check_declared, refuse_coins, refuse_values
from drest_torch.transforms.mini_episodes import MiniEpisodes, round_of, steps_before, total

PLAYED = "drest_played"
"""The key of the lengths so far, for custom counting rules."""


class DReSTReward(StatefulTransform):
    """The reward λ^(N − (i−1)/k) · C/m of each mini-episode, paid at its end (section 5 of the paper).

    C is the γ-discounted sum of the mini-episode's rewards from its start. N is the number of earlier mini-episodes of
    the meta-episode with the same length, and i − 1 the number of all earlier ones. The first mini-episode of a
    meta-episode has discount 1. All rewards of a mini-episode share one discount and one m. Both depend on its length,
    so the transform pays at its end. With γ = 1 within the mini-episode, the return from its start is the paper's.

    λ = 1 gives the default reward c/m, and with ``divide_by_best=False`` it gives c.

    The environment's ``done`` must be the end of a meta-episode, which contains mini-episodes. Steps mark the ends of
    mini-episodes by the entries of the ``…_key`` arguments, each of shape [*batch, 1] or [*batch]. A key may be nested,
    such as ``("info", "mini_done")``. On attachment to an environment, the transform checks that the specs declare
    these entries, and otherwise raises a `ConfigError` with the required declaration.

    The transform adds to the tensordict ``drest_counts`` [*batch, k], ``drest_coins`` (the discounted sum so far), with
    a custom counting rule ``drest_played``, and ``reward_raw``, the environment's own reward. The counters are part of
    the data; the policy must not observe them.

    With ``group`` slots, or with averaged counting, mini-episodes of neighbouring slots are counted together. The
    transform then pays for a collected batch of whole mini-episodes [slots, time], as the ``postproc`` of a collector
    (`forward`), instead of in an environment.

    `from_reward` makes the transform from a `drest_torch.reward.Reward`.

    Args:
        lam: λ in (0, 1]; a smaller λ is a stronger incentive to vary the length.
        gamma: discount of a reward per tick within its mini-episode.
        num_lengths: k, or the largest k if ``num_lengths_key`` gives each slot its own.
        divide_by_best: whether C is divided by m, read from ``best_return_key``.
        normalise: whether the discount has the normalising factor λ^(−(i−1)/k); without it, it is λ^N.
        clip: the largest reward of a mini-episode; None: no limit.
        counting: ``sequential``; or ``averaged``, for the mean discount over the orders of mini-episodes that the slots
            of a group play side by side (`Reward.group_discounts`).
        group: the number of neighbouring slots whose mini-episodes are counted together, on a collected batch.
        mini_done_key: bool, the end of a mini-episode. length_key: integer, the index of the mini-episode's length
        among the k lengths, at its end. num_lengths_key: integer, k of each slot; None if all slots have
        ``num_lengths``. best_return_key: floating point, m of the length, at the end of the mini-episode. tick_key:
        integer, ticks of the current mini-episode so far, needed if ``gamma`` is not 1; None: count the steps.

    Example:
        >>> from torchrl.envs import TransformedEnv
        >>> env = TransformedEnv(MyEnv(), DReSTReward(lam=0.9, num_lengths=2, num_lengths_key=None))
        >>> env.rollout(100)["next", "reward"]
    """

    adds = ("reward_raw",)
    zero_best = False
    """True if m can be 0 although coins were collected: a lottery with a negative mean can be won."""

    def __init__(
        self,
        lam: float = 0.9,
        *,
        gamma: float = 1.0,
        num_lengths: int = 2,
        divide_by_best: bool = True,
        normalise: bool = True,
        clip: float | None = None,
        counting: str = "sequential",
        group: int = 1,
        mini_done_key: NestedKey = "mini_done",
        length_key: NestedKey = "mini_len",
        num_lengths_key: NestedKey | None = "num_lengths",
        best_return_key: NestedKey = "best_return",
        tick_key: NestedKey | None = "tick",
    ) -> None:
        check_whole("DReSTReward", num_lengths=num_lengths, group=group)
        super().__init__(in_keys=["reward"], out_keys=["reward"])
        self.num_lengths, self.group = num_lengths, group
        self.set_reward(Reward(lam, gamma, group, counting, divide_by_best, normalise=normalise, clip=clip))
        self.mini_done_key, self.length_key, self.num_lengths_key = mini_done_key, length_key, num_lengths_key
        self.best_return_key, self.tick_key = best_return_key, tick_key
        self._seen_meta_episode = False
        self._last: tuple[Tensor, Tensor] | None = None
        self.warns_of_cuts = True
        """True until the first warning about cut mini-episodes or meta-episodes."""

    @classmethod
    def from_reward(cls, reward: Reward, **arguments: Any) -> DReSTReward:
        """Return a transform with the parameters of a `Reward` and further arguments of the class.

        With sequential counting the environment determines the number of mini-episodes of a meta-episode.
        """
        transform = cls(counting=reward.counting, **arguments)
        transform.set_reward(reward)
        return transform

    def set_reward(self, reward: Reward) -> None:
        """Set the reward of all later payments."""
        self.averaged = reward.counting == "averaged"
        if self.averaged and self.group < 2:
            raise ConfigError(
                f"DReSTReward with averaged counting and group={self.group}; expected at least 2 slots side by side, "
                "or counting='sequential'"
            )
        self.reward = reward
        self._discounts: Tensor | None = None
        """The discounts [k, n] of averaged counting, by the number of others with the same length."""
        if self.averaged:
            self._discounts = reward.group_discounts(self.num_lengths, self.group)

    # ------------------------------------------------------------------------------------ attachment

    def check_environment(self, env: EnvBase) -> None:
        """Refuse an environment whose specs do not declare the required entries."""
        if self.averaged or self.group > 1:
            raise ConfigError(
                f"DReSTReward with {self.reward.counting} counting in groups of {self.group} pays for a collected "
                "batch, not in an environment; give it to a collector as postproc"
            )
        self.zero_best = getattr(type(innermost(env)), "zero_best", False)
        super().check_environment(env)
        for key, entry in self._required().items():
            check_declared(env, key, entry)
        observation = env.output_spec["full_observation_spec"]
        if GAMMA in observation:
            self._check_gamma(observation[GAMMA].space.low.max().item())
        elif "best_coins" in observation:
            self._check_gamma(1.0)
        length = observation.get(self.length_key, None)
        if isinstance(length, Categorical):
            self._check_number_of_lengths(length.space.n)

    def _check_number_of_lengths(self, count: int) -> None:
        """Refuse an environment with more lengths than ``num_lengths``, or fewer without ``num_lengths_key``."""
        if count > self.num_lengths or (count < self.num_lengths and self.num_lengths_key is None):
            raise ConfigError(
                f"the environment declares {count} lengths in {self.length_key!r}, but DReSTReward counts "
                f"{self.num_lengths}; give it num_lengths={count}"
            )

    def _check_gamma(self, gamma: float) -> None:
        """Refuse an m whose discount differs from that of the paid returns."""
        if self.reward.divide_by_best and not math.isclose(gamma, self.reward.gamma, rel_tol=1e-6):
            raise ConfigError(
                f"BestReturn measures m with gamma={gamma:g}, but DReSTReward pays with gamma={self.reward.gamma:g}; "
                "give both the same"
            )

    def _required(self) -> dict[NestedKey, RequiredEntry]:
        """Return the required entries of steps."""
        entries = {
            "reward": RequiredEntry(torch.float32, "the reward before any discount", "use RenameTransform"),
            self.mini_done_key: RequiredEntry(
                torch.bool, "whether this step ended a mini-episode", "give mini_done_key"
            ),
            self.length_key: RequiredEntry(torch.int64, "which of the k lengths it had, from 0", "give length_key"),
        }
        if self.num_lengths_key is not None:
            remedy = "pass num_lengths_key=None and num_lengths=k if k is the same everywhere"
            entries[self.num_lengths_key] = RequiredEntry(torch.int64, "k, the number of lengths", remedy)
        if self.reward.divide_by_best:
            meaning = "m, the most that the length offers"
            entries[self.best_return_key] = RequiredEntry(torch.float32, meaning, "pass divide_by_best=False")
        if self.reward.gamma != 1 and self.tick_key is not None:
            remedy = "pass tick_key=None to count steps instead"
            entries[self.tick_key] = RequiredEntry(torch.int64, "ticks of the mini-episode so far", remedy)
        return entries

    # ------------------------------------------------------------------------------------ steps

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        counts, coins = tensordict.get("drest_counts"), tensordict.get("drest_coins")
        ended = column(next_tensordict, self.mini_done_key)
        raw = next_tensordict.get("reward")
        value = raw.to(coins.dtype)
        if self.reward.gamma == 1:
            coins = coins + value
        else:
            coins = coins + value * self.reward.gamma ** column(tensordict, self.tick_key or "drest_tick")
        # `length` and m are defined only at the end of a mini-episode, where payment and counting happen.
        k: Tensor | int = self.num_lengths
        if self.num_lengths_key is not None:
            k = column(next_tensordict, self.num_lengths_key)
        best: Tensor | None = None
        if self.reward.divide_by_best:
            best = column(next_tensordict, self.best_return_key)
        length = column(next_tensordict, self.length_key).long()
        self._check_ends(ended, length, k, best, coins)
        length = length * ended
        discount = self.reward.discount(counts.gather(-1, length), counts.sum(-1, keepdim=True), k)
        paid = torch.where(ended, self.reward.pay(coins, discount, best), 0)
        if self.reward.count is None:
            counts = number = counts.scatter_add(-1, length, ended.to(counts.dtype))
        else:
            played = self._played(tensordict.get(PLAYED), length, ended)
            counts = self.reward.counts_after(played - 1, self.num_lengths)
            next_tensordict.set(PLAYED, played)
            number = (played > 0).float()
        next_tensordict.set("reward", paid.to(raw.dtype))
        next_tensordict.set("reward_raw", raw)
        next_tensordict.set("drest_counts", counts)
        next_tensordict.set("drest_coins", coins * ~ended)
        if self.tick_key is None:
            next_tensordict.set("drest_tick", (tensordict.get("drest_tick") + 1) * ~ended)
        if not self._seen_meta_episode:
            self._seen_meta_episode = warn_of_single_episodes(number, column(next_tensordict, "done"))
        if self.warns_of_cuts:
            self._last = number, column(next_tensordict, "done")
        return next_tensordict

    def _played(self, played: Tensor, length: Tensor, ended: Tensor) -> Tensor:
        """Return the lengths of the meta-episode's mini-episodes [*batch, E], the latest at the end.

        Lengths are numbered from 1; 0 is padding.
        """
        if (played[..., :1] * ended).any():
            raise ConfigError(
                f"DReSTReward with reward.count={self.reward.count}: a meta-episode has more than {played.shape[-1]} "
                "mini-episodes; give the reward the episodes_per_meta of the environment"
            )
        return torch.where(ended, torch.cat((played[..., 1:], length + 1), -1), played)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Warn if slots are reset within a meta-episode, as after a truncation outside this transform."""
        reset = tensordict.get("_reset", None)
        if self._last is not None and reset is not None:
            number, done = self._last
            self.warns_of_cuts = not warn_of_reset(number, done, reset)
        self._last = None
        return super()._reset(tensordict, tensordict_reset)

    # ------------------------------------------------------------------------------------ collected batches

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Pay for a collected batch [slots, time] in which slots play whole mini-episodes side by side.

        Every ``group`` neighbouring slots are one meta-episode. With sequential counting its mini-episodes count in the
        order of the slots, round by round, and ``drest_counts`` [slots, time, k], N of each length before the
        mini-episode, are added. Mini-episodes that do not end in the batch are neither paid nor counted, with one
        warning. A batch that begins within a mini-episode is refused, because earlier rewards are missing.
        """
        self._check_batch(tensordict)
        episodes = self.mini_episodes(tensordict)
        paid = self.paid(episodes, tensordict)
        slot, time = episodes.end
        reward = tensordict.get(("next", "reward"))
        new = torch.zeros_like(reward)
        new[slot, time, 0] = paid[slot, episodes.round[slot, time]].to(new.dtype)
        tensordict.set(("next", "reward_raw"), reward)
        tensordict.set(("next", "reward"), new)
        return tensordict

    def _check_batch(self, batch: TensorDictBase) -> None:
        """Refuse a batch with missing rewards or a wrong shape, and warn of unfinished mini-episodes."""
        if batch.ndim != 2 or batch.shape[0] % self.group:
            raise ConfigError(
                f"DReSTReward with a batch of shape {tuple(batch.shape)} and group={self.group}; expected "
                "[slots, time], and a group that divides the slots"
            )
        if batch.get(GAMMA, None) is not None:
            self._check_gamma(batch.get(GAMMA)[0, 0].item())
        elif batch.get("best_coins", None) is not None:
            self._check_gamma(1.0)
        ended = column(batch.get("next"), self.mini_done_key)
        ticks = [key for key in (self.tick_key, "best_tick") if key is not None]
        refuse_parts(batch, ended, ticks)
        if self.warns_of_cuts:
            self.warns_of_cuts = not warn_of_unfinished(batch, ended, ticks)

    def mini_episodes(self, batch: TensorDictBase) -> MiniEpisodes:
        """Return the mini-episodes of a batch [slots, time]."""
        after = batch.get("next")
        ended = column(after, self.mini_done_key).squeeze(-1)  # [slots, time]
        order = round_of(ended)
        end = ended.nonzero(as_tuple=True)
        place = end[0], order[end]
        shape = batch.shape[0], max(int(ended.sum(1).max()), 1)  # slots, rounds

        def at_end(key: NestedKey, default: float, dtype: torch.dtype) -> Tensor:
            value = torch.full(shape, default, dtype=dtype, device=ended.device)
            value[place] = column(after, key).squeeze(-1)[end].to(dtype)
            return value

        value = after.get("reward").squeeze(-1).float()
        if self.reward.gamma != 1:
            value = value * self.reward.gamma ** self._ticks(batch, ended)
        coins = total(value, order, shape[1])
        length = at_end(self.length_key, -1, torch.int64)
        k = torch.full_like(length, self.num_lengths)
        if self.num_lengths_key is not None:
            k = at_end(self.num_lengths_key, 1, torch.int64)
        best: Tensor | None = None
        if self.reward.divide_by_best:
            best = at_end(self.best_return_key, 1, torch.float32)
        played = torch.zeros_like(length, dtype=torch.bool)
        played[place] = True
        self._check_ends(played, length, k, best, coins)
        return MiniEpisodes(end=end, round=order, coins=coins, length=length, num_lengths=k, best_return=best)

    def _check_ends(self, ended: Tensor, length: Tensor, k: Tensor | int, best: Tensor | None, coins: Tensor) -> None:
        """Refuse impossible values at the ends of mini-episodes."""
        if not ended.any():
            return
        if not math.isfinite(coins.sum().item()):  # ten times as fast as the check below
            refuse_coins(coins[ended & ~coins.isfinite()], self.parent)
        most = torch.as_tensor(k, device=length.device).expand_as(length)
        is_wrong = (most < 1) | (most > self.num_lengths)
        refuse_values(self.num_lengths_key, most, is_wrong & ended, f"1 to {self.num_lengths}")
        is_wrong = (length < 0) | (length >= most)
        refuse_values(self.length_key, length, is_wrong & ended, "the index of one of its lengths, from 0")
        if best is not None:
            is_wrong = (best < 0) | ~best.isfinite()
            if not self.zero_best:
                is_wrong = is_wrong | ((best == 0) & (coins > 0))
            expected = "the most that the length offers, a number above 0"
            refuse_values(self.best_return_key, best, is_wrong & ended, expected)

    def _ticks(self, batch: TensorDictBase, ended: Tensor) -> Tensor:
        """Return the ticks of the mini-episode before each step [slots, time]; by default a tick is a step."""
        if self.tick_key is None or batch.get(self.tick_key, None) is None:
            return steps_before(ended)
        return column(batch, self.tick_key).squeeze(-1)

    def paid(self, episodes: MiniEpisodes, batch: TensorDictBase) -> Tensor:
        """Return the rewards [slots, rounds] of mini-episodes, and write the counts to the batch."""
        k = episodes.num_lengths
        if self._discounts is not None:
            discount = self._discounts.to(k.device)[k, self.alike(episodes.length)]
        else:
            counts = self.counts_before(episodes.length)  # [slots, rounds, k]
            discount = self.reward.discount(count_of_chosen(counts, episodes.length), counts.sum(-1), k)
            place = episodes.round.clamp_max(k.shape[1] - 1).unsqueeze(-1)
            batch.set("drest_counts", counts.gather(1, place.expand(-1, -1, self.num_lengths)))
        paid = self.reward.pay(episodes.coins, discount, episodes.best_return)
        return torch.where(episodes.length >= 0, paid, 0)

    def counts_before(self, length: Tensor) -> Tensor:
        """Return N of each length before each mini-episode [slots, rounds, k]; a group counts in order, by rounds."""
        in_groups = length.unflatten(0, (-1, self.group))
        in_order = in_groups.transpose(1, 2).flatten(1, 2)  # [groups, rounds · group]
        counts = self.reward.counts_before(in_order, self.num_lengths)
        return counts.unflatten(1, (-1, self.group)).transpose(1, 2).reshape(*length.shape, self.num_lengths)

    def alike(self, length: Tensor) -> Tensor:
        """Return the number of other mini-episodes with the same length in the group and round [slots, rounds]."""
        side_by_side = length.unflatten(0, (-1, self.group)).transpose(1, 2)  # [groups, rounds, group]
        alike = same_length_in_group(side_by_side, self.num_lengths).transpose(1, 2).reshape(length.shape)
        return (alike - 1).clamp_min(0)

    # ------------------------------------------------------------------------------------ specs

    def entries(self, batch: torch.Size, device: torch.device | None) -> Entries:
        counters: Entries = {
            "drest_counts": Unbounded((*batch, self.num_lengths), device=device),
            "drest_coins": Unbounded((*batch, 1), device=device),
        }
        if self.reward.count is not None:
            shape = *batch, self.reward.episodes_per_meta
            counters[PLAYED] = Unbounded(shape, dtype=torch.int64, device=device)
        if self.tick_key is None:
            counters["drest_tick"] = whole(batch, device)
        return counters

    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """Add ``reward_raw``, the environment's own reward, to the spec."""
        if not isinstance(reward_spec, Composite):
            reward_spec = Composite(reward=reward_spec)
        reward_spec["reward_raw"] = reward_spec["reward"].clone()
        return reward_spec
