"""A TorchRL transform that estimates m(l), the best return of each length, in environments without a solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from drest_torch.errors import ConfigError
from drest_torch.transforms.base import (
    LEVEL,
    Entries,
    StatefulTransform,
    check_finite,
    check_whole,
    column,
    title,
    whole,
)

GAMMA = "best_gamma"
"""The key of the discount of returns, present if it is not 1."""


class BestReturn(StatefulTransform):
    """A transform that adds ``best_return``, the best return of the length, at the end of each mini-episode.

    The best return is the largest return C of this length so far, the current one included, so that C/m is at most 1;
    or a fixed number. The largest returns are in a buffer (part of ``state_dict``), which all slots share.

    With negative rewards C can be negative, and a discount above 1 would then penalise a rare length. ``floor``, a
    lower bound of the rewards, is therefore subtracted from each reward: every C is at least 0, and a return of the
    lowest reward in every step has usefulness 0.

    Args:
        num_lengths: k.
        fixed: m of each length; None: the largest return so far.
        gamma: the discount of a reward per step of its mini-episode, equal to that of the `DReSTReward`. A discount
            below 1 is added to the tensordict as ``best_gamma``.
        floor: a lower bound of the rewards.
        levels: the number of levels with their own m, by ``level_seed`` from 0 (see `MetaEpisodes`).
    """

    comes_before = MappingProxyType({"drest_counts": "DReSTReward"})

    best: Tensor
    """[levels, k] m(l); 0 for a length that has not occurred."""

    def __init__(
        self,
        num_lengths: int,
        *,
        fixed: Sequence[float] | None = None,
        gamma: float = 1.0,
        floor: float = 0.0,
        levels: int = 1,
    ) -> None:
        super().__init__()
        check_whole("BestReturn", num_lengths=num_lengths, levels=levels)
        if fixed is not None and (len(fixed) != num_lengths or not all(0 < best < math.inf for best in fixed)):
            raise ConfigError(
                f"BestReturn with m(l) of {list(fixed)}; expected {num_lengths} finite numbers above 0, one for each "
                "length (see `floor` for rewards that are negative)"
            )
        if not (0 < gamma <= 1 and math.isfinite(floor)):
            raise ConfigError(
                f"BestReturn with gamma={gamma}, floor={floor}; expected 0 < gamma <= 1, and a finite floor"
            )
        self.fixed, self.gamma, self.floor = fixed, gamma, floor
        best = torch.zeros(num_lengths)
        if fixed is not None:
            best = torch.tensor(fixed).float()
        self.register_buffer("best", best.repeat(levels, 1))

    def check_environment(self, env: EnvBase) -> None:
        """Refuse an environment without the index of a mini-episode's length, or with another number of lengths."""
        super().check_environment(env)
        length = env.observation_spec.get("mini_len", None)
        if length is None:
            raise ConfigError(
                f"BestReturn reads 'mini_len', the index of the length, but {title(env)} does not declare it; put "
                "ShutdownTimer before it, or add Unbounded((*batch, 1), dtype=torch.int64) to its observation_spec"
            )
        if isinstance(length, Categorical) and length.space.n != self.best.shape[1]:
            raise ConfigError(
                f"BestReturn with num_lengths={self.best.shape[1]}, but {title(env)} has {length.space.n} lengths; "
                f"give num_lengths={length.space.n}"
            )

    def entries(self, batch: torch.Size, device: torch.device | None) -> Entries:
        numbers = {name: Unbounded((*batch, 1), device=device) for name in ("best_return", "best_coins")}
        return {**numbers, "best_tick": whole(batch, device)}

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the entries and a discount below 1 to the observation spec."""
        observation_spec = super().transform_observation_spec(observation_spec)
        if self.gamma != 1:
            shape, device = (*observation_spec.shape, 1), observation_spec.device
            observation_spec[GAMMA] = Bounded(self.gamma, self.gamma, shape=shape, dtype=torch.float32, device=device)
        return observation_spec

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        state = super()._reset(tensordict, tensordict_reset)
        return self._add_gamma(state, state.get("best_coins"))

    def _add_gamma(self, tensordict: TensorDictBase, like: Tensor) -> TensorDictBase:
        if self.gamma == 1:
            return tensordict
        return tensordict.set(GAMMA, torch.full_like(like, self.gamma))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        env = self.parent
        assert env is not None
        reward = column(next_tensordict, "reward") - self.floor
        tick = tensordict.get("best_tick")
        check_finite(reward, env)
        if self.floor and "timer_skipped" in next_tensordict:
            reward = reward - self.floor * self._weight(next_tensordict.get("timer_skipped"))
        value = reward.to(self.best.dtype)  # add rewards in the precision of m
        if self.gamma != 1:
            value = value * self.gamma**tick
        coins = tensordict.get("best_coins") + value
        tick, best_return = tick + 1, torch.zeros_like(coins)
        end = "done"
        if "mini_done" in next_tensordict:  # the environment has its own mini-episodes
            end = "mini_done"
        done = column(next_tensordict, end)
        if done.any():
            length = column(next_tensordict, "mini_len").long() * done
            if not 0 <= length.min() <= length.max() < self.best.shape[1]:
                raise ConfigError(
                    f"{title(env)} ended a mini-episode with 'mini_len' from {length.min()} to {length.max()}; "
                    f"expected 0 to {self.best.shape[1] - 1}, the index of its length"
                )
            if len(self.best) > 1:
                length = length + self.best.shape[1] * self._level(tensordict, env)
            counts = done
            waits = tensordict.get("mini_waits", None)
            if waits is not None:  # steps of a waiting slot do not count
                counts = done & ~waits
            self._update_best(length[counts], coins[counts], env)
            best = self.best.flatten()[length]
            best_return = torch.where(done, torch.where(best > 0, best, 1), 0)
            coins, tick = coins * ~done, tick * ~done
        entries = {"reward": reward, "best_return": best_return, "best_coins": coins, "best_tick": tick}
        return self._add_gamma(next_tensordict.update(entries), coins)

    def _weight(self, steps: Tensor) -> Tensor:
        """Return the discounted sum of this number of further steps with a reward of 1."""
        if self.gamma == 1:
            return steps
        return self.gamma * (1 - self.gamma**steps) / (1 - self.gamma)

    def _level(self, tensordict: TensorDictBase, env: EnvBase) -> Tensor:
        """Return the seeds of the levels [*batch, 1], which index `best`."""
        level: Tensor | None = tensordict.get(LEVEL, None)
        if level is not None and 0 <= level.min() <= level.max() < len(self.best):
            return level
        where = "no level"
        if level is not None:
            where = f"level {level.max()}"
        raise ConfigError(
            f"BestReturn with levels={len(self.best)}, but {title(env)} is on {where}; use MetaEpisodes with "
            f"levels=range({len(self.best)})"
        )

    def _update_best(self, length: Tensor, coins: Tensor, env: EnvBase) -> None:
        """Update the best returns from the returns [n] of mini-episodes, with ``length`` [n] as indices into `best`."""
        if (coins < 0).any():
            raise ConfigError(
                f"the return of a mini-episode of {title(env)} was {coins.min():g} above a floor of {self.floor:g} a "
                "step, and a discount of a negative return would punish rare lengths; set `floor` (env.floor) to a "
                "lower bound of the rewards"
            )
        if self.fixed is None:
            self.best.view(-1).scatter_reduce_(0, length, coins, "amax")
