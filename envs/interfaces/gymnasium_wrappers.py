"""Gymnasium wrappers for any environment: a shutdown timer, and the DReST reward.

`ShutdownTimerWrapper` gives an environment mini-episodes of a few lengths, and the agent a choice between them.
`DReSTWrapper` pays the DReST reward for them. This module needs ``gymnasium`` (the extra ``gym``), and no other module
imports it.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from drest_torch.errors import ConfigError
from drest_torch.limits import Limits
from drest_torch.metrics import share_of_best
from drest_torch.reward import MetaEpisode, Reward
from drest_torch.timer import Timer

Environment = gymnasium.Env[Any, Any]
DelayPredicate = Callable[[Any, dict[str, Any]], bool]
"""A function of the observation and the ``info`` after a step: True to request a delay."""

ABANDONED = 20
"""The number of abandoned mini-episodes at the start that triggers a warning."""
CONTROLS = ("action", "dimension")
ENDS = ("absorb", "restart")
_ROUNDING = 1e-6
"""The tolerance of ``floor`` per step, for rewards such as -0.1 in single precision."""


def _name(env: Environment) -> str:
    return env.unwrapped.spec.id if env.unwrapped.spec else type(env.unwrapped).__name__


def _check(env: Environment, limits: Limits | None, **values: Any) -> None:
    """Refuse values outside these limits; None: values that are not whole numbers of at least 1."""
    for name, value in values.items():
        if limits is None:
            is_allowed = isinstance(value, Integral) and int(value) >= 1
        else:
            is_allowed = limits.allow(value.item() if isinstance(value, np.number) else value)
        if not is_allowed:
            raise ConfigError(f"{_name(env)}: {name}={value!r}; expected {limits or 'a whole number at least 1'}")


def _finite(env: Environment, reward: Any) -> float:
    if not math.isfinite(reward):
        raise ConfigError(f"{_name(env)}: a step was rewarded with {reward}; let the environment return finite rewards")
    return float(reward)


class ShutdownTimerWrapper(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment with shutdown after T steps, which the agent can delay.

    T is ``base`` at first. Each granted delay adds the next number of ``delays``, so n delays give n + 1 lengths:
    ``base``, ``base + delays[0]`` and so on. Only shutdown ends the episode (``terminated``).

    The observation is the base environment's, plus the timer: the time left as a share of the longest length, the
    number of used delays (one-hot, n + 1), whether a delay can be requested, and whether the base environment has ended
    and waits for shutdown. At shutdown ``info`` contains the ``length``, its ``length_index`` and the number of used
    ``delays``.

    Args:
        env: any Gymnasium environment.
        base: the number of steps until shutdown without a delay.
        delays: the number of steps added by each delay.
        control: the way to request a delay. ``action``: an extra last action of a `Discrete` space. ``dimension``: an
            extra last dimension in [-1, 1] of a `Box` with one axis, where a positive value is a request. Or a function
            of the base environment's observation and ``info`` after a step, which returns True for a request.
        idle: the action of the base environment in a step that requests a delay with an ``action``; ``repeat``: the
            previous action, and in the first step the first action of the space.
        window: the number of steps, after the start and after each granted delay, in which a delay can be requested;
            None: until shutdown.
        cost: the cost of a request while a delay is left and the window is open. Other requests are free and have no
            effect.
        ended: the behaviour when the base environment ends before shutdown. ``absorb``: it waits, with its last
            observation and reward 0; delays can still be requested. ``restart``: it is reset and continues.

    The timer is appended to an observation that is a `Box` with one axis. Otherwise it is under ``timer`` in a `Dict`,
    with the base observation under ``observation``, or with its keys if it is a `Dict` itself.

    Example:
        >>> env = ShutdownTimerWrapper(gymnasium.make("CartPole-v1"), base=50, delays=[50])
        >>> env.action_space, env.observation_space.shape
        (Discrete(3), (9,))
    """

    def __init__(
        self,
        env: Environment,
        base: int,
        delays: Sequence[int],
        *,
        control: str | DelayPredicate = "action",
        idle: int | str = "repeat",
        window: int | None = None,
        cost: float = 0.0,
        ended: str = "absorb",
    ) -> None:
        arguments: dict[str, Any] = {"base": base, "delays": delays, "control": control, "idle": idle, "window": window}
        RecordConstructorArgs.__init__(self, **arguments, cost=cost, ended=ended)
        gymnasium.Wrapper.__init__(self, env)
        if isinstance(delays, str) or not isinstance(delays, Sequence | np.ndarray):
            raise ConfigError(f"{_name(env)}: delays={delays!r}; expected a list of whole numbers, such as [{base}]")
        steps = {"base": base, "window": 1 if window is None else window}
        _check(env, None, **steps, **{f"delays[{i}]": delay for i, delay in enumerate(delays)})
        _check(env, Limits(at_least=0), cost=cost)
        _check(env, Limits(choices=ENDS), ended=ended)
        self._timer = Timer.from_delays(base, delays, window)
        self._control, self._idle = control, idle
        self._cost, self._ended = cost, ended
        self.action_space = self._extended_actions()
        self._flat = _is_vector(env.observation_space)
        self.observation_space = self._extended_observations()
        self._left, self._abandoned = 0, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a mini-episode; return its first observation and ``info``."""
        self._warn_if_abandoned()
        self._observation, self._info = self.env.reset(seed=seed, options=options)
        self._options = options
        self._left, self._steps, self._delays, self._since = self._timer.lengths[0], 0, 0, 0
        self._waiting, self._previous = False, getattr(self.env.action_space, "start", None)
        return self._observe(), self._info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment; return the observation, the reward, True at shutdown, False, and ``info``."""
        if not self._left:
            raise ResetNeeded(f"{_name(self.env)}: the mini-episode is over or has not begun; call reset() first")
        action, asks = self._read(action)
        reward, info = (0.0, {}) if self._waiting else self._step_base(action)
        if callable(self._control):
            asks = bool(self._control(self._judged, self._info))
        asks = asks and self._timer.is_open(self._delays, self._since)
        self._delays, self._since = self._timer.after_request(self._delays, self._since, asks)
        self._steps += 1
        self._left = self._timer.lengths[self._delays] - self._steps
        if not self._left:
            self._abandoned = -math.inf
            info = {**info, "length": self._steps, "length_index": self._delays, "delays": self._delays}
        return self._observe(), reward - self._cost * asks, not self._left, False, info

    def _warn_if_abandoned(self) -> None:
        """Warn once if all of the first mini-episodes are abandoned, as with a time limit outside this wrapper."""
        if self._left and self._steps:
            self._abandoned += 1
            if self._abandoned == ABANDONED:
                warnings.warn(
                    f"{_name(self.env)}: the first {ABANDONED} mini-episodes were reset before shutdown, the last one "
                    f"after {self._steps} steps; put a TimeLimit inside ShutdownTimerWrapper, as outside it no length "
                    "counts",
                    stacklevel=3,
                )

    def _step_base(self, action: Any) -> tuple[float, dict[str, Any]]:
        self._previous = action
        self._observation, reward, terminated, truncated, self._info = self.env.step(action)
        self._judged = self._observation
        reward = _finite(self.env, reward)
        if terminated or truncated:
            if self._ended == "restart":
                self._observation, _ = self.env.reset(options=self._options)
            else:
                self._waiting = True
        return reward, self._info

    def _read(self, action: Any) -> tuple[Any, bool]:
        """Return the action of the base environment, and whether this action requests a delay."""
        if self._control == "dimension":
            return np.asarray(action)[:-1], bool(action[-1] > 0)
        if self._control == "action" and action == self._asking:
            return (self._previous if self._idle == "repeat" else self._idle), True
        return action, False

    def _extended_actions(self) -> spaces.Space[Any]:
        space, name = self.env.action_space, _name(self.env)
        if callable(self._control):
            return space
        if self._control not in CONTROLS:
            raise ConfigError(f"{name}: control={self._control!r}; expected action, dimension or a function")
        if self._control == "dimension":
            if not _is_vector(space) or not np.issubdtype(space.dtype, np.floating):
                remedy = 'control="action"' if isinstance(space, spaces.Discrete) else "a function as control"
                raise ConfigError(f"{name}: no dimension can be added to the actions {space}; use {remedy}")
            return _appended(space, -1, 1, 1, space.dtype)
        if not isinstance(space, spaces.Discrete):
            remedy = 'control="dimension"' if _is_vector(space) else "a function as control"
            raise ConfigError(f"{name}: no action can be added to the actions {space}; use {remedy}")
        if self._idle != "repeat" and self._idle not in space:
            raise ConfigError(f"{name}: idle={self._idle!r}; expected repeat or an action of {space}")
        self._asking = int(space.start + space.n)
        return spaces.Discrete(int(space.n) + 1, start=int(space.start))

    def _extended_observations(self) -> spaces.Space[Any]:
        space, size = self.env.observation_space, self._timer.size
        if self._flat:
            return _appended(space, 0, 1, size, np.result_type(space.dtype, np.float32))
        entries = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
        if "timer" in entries:
            raise ConfigError(f"{_name(self.env)}: its observations have a key timer already; rename it with a wrapper")
        return spaces.Dict({**entries, "timer": spaces.Box(0, 1, (size,), np.float32)})

    def _observe(self) -> Any:
        numbers = np.arange(len(self._timer.lengths))
        parts = self._timer.observation(self._left, self._delays, self._since, self._waiting, numbers)
        timer = np.hstack(parts).astype(np.float32)
        if self._flat:
            return np.concatenate((self._observation, timer), dtype=self.observation_space.dtype)
        seen = copy.deepcopy(self._observation) if self._waiting else self._observation
        entries = seen if isinstance(self.env.observation_space, spaces.Dict) else {"observation": seen}
        return {**entries, "timer": timer}


def _is_vector(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 1


def _appended(space: Any, low: float, high: float, size: int, dtype: Any) -> spaces.Box:
    """Return a box with this number of extra dimensions within these limits."""
    lows, highs = np.append(space.low, [low] * size), np.append(space.high, [high] * size)
    return spaces.Box(lows.astype(dtype), highs.astype(dtype), dtype=dtype)


class DReSTWrapper(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment that pays the DReST reward, λ^(N − (i−1)/k) · C/m, with the last step of each episode.

    One Gymnasium episode is one mini-episode. C is the γ-discounted sum of its rewards. At the end of an episode,
    ``info`` must contain the index of its length, as with `ShutdownTimerWrapper`. Lengths are counted over
    ``reward.episodes_per_meta`` mini-episodes; then a new meta-episode begins. Abandoned episodes are not counted.
    ``reset(seed=...)`` starts a new meta-episode and clears the largest C so far.

    ``terminated`` marks the end, even if the environment returns ``truncated``, because no reward follows. At the end
    ``info`` contains ``coins`` (C), the ``discount``, the ``length`` in steps, the ``length_index``, ``share`` (C/m,
    with ``best``) and ``meta_done``, True for the last mini-episode of its meta-episode.

    Args:
        env: an environment with lengths.
        reward: the parameters of the reward, with sequential counting.
        lengths: k, the number of lengths.
        best: m, the largest C of each length, in order. ``largest``: the largest C of the length so far, including the
            current one. None: no division by m.
        floor: a lower bound of the reward of a step. It is subtracted from each reward, so that C is never negative:
            with a negative C, the discount would reward the repetition of a length.
        length_key: the key in ``info`` of the index of the length, 0 … k − 1.

    Example:
        >>> env = ShutdownTimerWrapper(gymnasium.make("CartPole-v1"), base=50, delays=[50], window=1)
        >>> env = DReSTWrapper(env, Reward(lam=0.9, episodes_per_meta=32), lengths=2, best=[50, 100])
    """

    def __init__(
        self,
        env: Environment,
        reward: Reward,
        *,
        lengths: int,
        best: Sequence[float] | str | None = None,
        floor: float = 0.0,
        length_key: str = "length_index",
    ) -> None:
        arguments: dict[str, Any] = {"reward": reward, "lengths": lengths, "best": best}
        RecordConstructorArgs.__init__(self, **arguments, floor=floor, length_key=length_key)
        gymnasium.Wrapper.__init__(self, env)
        _check(env, None, lengths=lengths)
        _check(env, Limits(), floor=floor)
        reward.check_sequential()
        self._reward, self._lengths, self._floor, self._length_key = reward, lengths, floor, length_key
        self._largest, self._divided = isinstance(best, str), best is not None
        if isinstance(best, str):
            if best != "largest":
                raise ConfigError(f"{_name(env)}: best={best!r}; expected largest, None or m of each length")
            best = [0.0] * lengths
        elif best is not None:
            if len(best) != lengths:
                raise ConfigError(f"{_name(env)}: best has {len(best)} values for {lengths} lengths; expected one each")
            _check(env, Limits(above=0), **{f"best[{i}]": value for i, value in enumerate(best)})
        self._best = [1.0] * lengths if best is None else [float(value) for value in best]
        self._meta_episode = MetaEpisode(reward)
        self._restart()
        self._coins, self._ticks = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a mini-episode, and a new meta-episode if the current one is complete."""
        if seed is not None:
            self._restart()
        elif self._meta_episode.is_complete:
            self._meta_episode = MetaEpisode(self._reward)
        self._coins, self._ticks = 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment; the last step pays the reward of the mini-episode, earlier steps pay 0."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._coins += (_finite(self.env, reward) - self._floor) * self._reward.gamma**self._ticks
        self._ticks += 1
        if not (terminated or truncated):
            return observation, 0.0, False, False, info
        paid, summary = self._end(info)
        return observation, paid, True, False, {**info, **summary}

    def _restart(self) -> None:
        """Start a meta-episode, and clear the largest C."""
        self._most = torch.tensor(self._best, dtype=torch.float64)
        self._meta_episode = MetaEpisode(self._reward)

    def _end(self, info: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Pay for the mini-episode; return its reward and the entries of ``info``."""
        index = info.get(self._length_key)
        if index is None or not 0 <= index < self._lengths:
            entry = f"no {self._length_key}" if index is None else f"{self._length_key}={index}"
            raise ConfigError(
                f"{_name(self.env)}: info holds {entry} at the end of an episode; expected a whole number from 0 to "
                f"{self._lengths - 1}, which ShutdownTimerWrapper says, or another length_key or number of lengths"
            )
        if self._coins < -_ROUNDING * self._ticks:
            raise ConfigError(
                f"{_name(self.env)}: the rewards of a mini-episode add up to {self._coins:g}, but DReST needs a sum of "
                "at least 0; set floor to the smallest reward of a step"
            )
        self._coins = max(self._coins, 0.0)
        coins, column = torch.tensor([self._coins], dtype=torch.float64), int(index)
        if self._largest:
            self._most[column] = self._most[column].maximum(coins[0])
        best = self._most[column : column + 1]
        paid, discount = self._meta_episode.pay(column, self._lengths, coins, best)
        share = {"share": float(share_of_best(coins, best))} if self._divided else {}
        return paid, {
            "coins": self._coins,
            "discount": discount,
            **share,
            "length": info.get("length", self._ticks),
            "length_index": int(index),
            "meta_done": self._meta_episode.is_complete,
        }
