"""m(l), the most that a mini-episode of each length can collect, where nobody knows it: a TorchRL transform."""

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
"""The key under which the discount of returns is shown, if it is not 1."""


class BestReturn(StatefulTransform):
    """Says at the end of each mini-episode what the best return of its length is, under ``best_return``.

    That is the largest return C of the length that was seen so far, this one among them, so that C/m is at most 1, or a
    number that is given. What was seen is a buffer (``state_dict`` has it), which all slots share.

    Rewards can be negative, and then so can C, and a discount above 1 would punish a rare length. ``floor`` is
    therefore subtracted from each reward: a lower bound of the rewards makes every C at least 0, and usefulness is then
    measured from what an agent gets that is paid the lowest reward in every step.

    Args:
        num_lengths: k.
        given: m of each length; None: the largest return so far.
        gamma: the discount of a reward per step of its mini-episode, that of the `DReSTReward`. One below 1 is shown,
            as ``best_gamma``.
        floor: a lower bound of the rewards.
        levels: levels that have an m of their own, by ``level_seed`` (see `MetaEpisodes`), from 0.
    """

    comes_before = MappingProxyType({"drest_counts": "DReSTReward"})

    best: Tensor
    """[levels, k] m(l), 0 for a length that was not seen."""

    def __init__(
        self,
        num_lengths: int,
        *,
        given: Sequence[float] | None = None,
        gamma: float = 1.0,
        floor: float = 0.0,
        levels: int = 1,
    ) -> None:
        super().__init__()
        check_whole("BestReturn", num_lengths=num_lengths, levels=levels)
        if given is not None and (len(given) != num_lengths or not all(0 < best < math.inf for best in given)):
            raise ConfigError(
                f"BestReturn with m(l) of {list(given)}; expected {num_lengths} finite numbers above 0, one for each "
                "length (see `floor` for rewards that are negative)"
            )
        if not (0 < gamma <= 1 and math.isfinite(floor)):
            raise ConfigError(
                f"BestReturn with gamma={gamma}, floor={floor}; expected 0 < gamma <= 1, and a finite floor"
            )
        self.given, self.gamma, self.floor = given, gamma, floor
        best = torch.zeros(num_lengths)
        if given is not None:
            best = torch.tensor(given).float()
        self.register_buffer("best", best.repeat(levels, 1))

    def check_environment(self, env: EnvBase) -> None:
        """Refuse an environment that does not say which length a mini-episode had, or has another number of them."""
        super().check_environment(env)
        length = env.observation_spec.get("mini_len", None)
        if length is None:
            raise ConfigError(
                f"BestReturn reads 'mini_len', the index of the length, and {title(env)} does not declare it; put "
                "ShutdownTimer before it, or add Unbounded((*batch, 1), dtype=torch.int64) to its observation_spec"
            )
        if isinstance(length, Categorical) and length.space.n != self.best.shape[1]:
            raise ConfigError(
                f"BestReturn with num_lengths={self.best.shape[1]}, and {title(env)} has {length.space.n} lengths; "
                f"give num_lengths={length.space.n}"
            )

    def entries(self, batch: torch.Size, device: torch.device | None) -> Entries:
        numbers = {name: Unbounded((*batch, 1), device=device) for name in ("best_return", "best_coins")}
        return {**numbers, "best_tick": whole(batch, device)}

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the entries to the observations, and the discount if it is not 1."""
        observation_spec = super().transform_observation_spec(observation_spec)
        if self.gamma != 1:
            shape, device = (*observation_spec.shape, 1), observation_spec.device
            observation_spec[GAMMA] = Bounded(self.gamma, self.gamma, shape=shape, dtype=torch.float32, device=device)
        return observation_spec

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        begun = super()._reset(tensordict, tensordict_reset)
        return self._show_gamma(begun, begun.get("best_coins"))

    def _show_gamma(self, tensordict: TensorDictBase, like: Tensor) -> TensorDictBase:
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
        value = reward.to(self.best.dtype)  # rewards of any precision are added up in that of m
        if self.gamma != 1:
            value = value * self.gamma**tick
        coins = tensordict.get("best_coins") + value
        tick, shown = tick + 1, torch.zeros_like(coins)
        end = "done"
        if "mini_done" in next_tensordict:  # of an environment with mini-episodes of its own
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
            if waits is not None:  # what a slot does while it waits for its group is not played
                counts = done & ~waits
            self._see(length[counts], coins[counts], env)
            best = self.best.flatten()[length]
            shown = torch.where(done, torch.where(best > 0, best, 1), 0)
            coins, tick = coins * ~done, tick * ~done
        entries = {"reward": reward, "best_return": shown, "best_coins": coins, "best_tick": tick}
        return self._show_gamma(next_tensordict.update(entries), coins)

    def _weight(self, steps: Tensor) -> Tensor:
        """Return what so many further steps with a reward of 1 are worth."""
        if self.gamma == 1:
            return steps
        return self.gamma * (1 - self.gamma**steps) / (1 - self.gamma)

    def _level(self, tensordict: TensorDictBase, env: EnvBase) -> Tensor:
        """Return the seeds of the levels [*batch, 1]."""
        level: Tensor | None = tensordict.get(LEVEL, None)
        if level is not None and 0 <= level.min() <= level.max() < len(self.best):
            return level
        where = "no level"
        if level is not None:
            where = f"level {level.max()}"
        raise ConfigError(
            f"BestReturn with levels={len(self.best)}, and {title(env)} is on {where}; use MetaEpisodes with "
            f"levels=range({len(self.best)})"
        )

    def _see(self, length: Tensor, coins: Tensor, env: EnvBase) -> None:
        """Take account of the returns [n] of mini-episodes with these lengths [n], which are places in `best`."""
        if (coins < 0).any():
            raise ConfigError(
                f"the return of a mini-episode of {title(env)} was {coins.min():g} above a floor of {self.floor:g} a "
                "step, and a discount of a negative return would punish what is rare; set `floor` (env.floor) to a "
                "lower bound of the rewards"
            )
        if self.given is None:
            self.best.view(-1).scatter_reduce_(0, length, coins, "amax")
