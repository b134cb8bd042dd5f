"""Copies of a Gymnasium environment with numeric observations, in this process or in separate processes.

A copy can wait in a step. This module does not import torch, so that processes start fast.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.spaces.utils import flatdim, flatten
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from drest_torch.errors import UserError, blaming

NUMBERS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict, spaces.Tuple)
"""Spaces of observations that Gymnasium can flatten to numbers."""
RESERVED = {"action", "reward", "done", "terminated", "truncated", "next", "level_seed", "_reset", "_step"}
"""The names of a batch's entries besides observations."""
SECONDS_TO_END = 5.0
"""The time that a process has to end after its pipe is closed."""


class Copy(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A copy of an environment with numeric observations and actions.

    In a step without an action it waits: it repeats its last observation, with reward 0.

    Args:
        make: the function that makes the environment.
        source: the name of the function or id, for messages.
        driver: the id of the process that handles Ctrl-C; copies in other processes ignore it.
    """

    def __init__(self, make: Callable[[], gymnasium.Env[Any, Any]], source: str, driver: int) -> None:
        if os.getpid() != driver:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        with blaming(source):
            env = make()
        if not isinstance(env, gymnasium.Env):
            raise UserError(f"{source} makes a {type(env).__name__}; expected a gymnasium.Env")
        super().__init__(env)
        self.name = type(env.unwrapped).__name__
        if env.spec is not None:
            self.name = env.spec.id
        self.action_space = numbered_actions(env.action_space, self.name)
        self._entries = entries_of(env.observation_space, self.name)
        self._is_dict = isinstance(env.observation_space, spaces.Dict)
        if self._is_dict:
            self.observation_space = spaces.Dict({name: numeric_space(space) for name, space in self._entries.items()})
        else:
            self.observation_space = numeric_space(env.observation_space)
        self._base_actions: Any = env.action_space
        self._first_action = 0
        if isinstance(env.action_space, spaces.Discrete):
            self._first_action = int(env.action_space.start)
        self._terminated = False
        self._truncated = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; return its first observation and an empty ``info``."""
        try:
            observation, _ = self.env.reset(seed=seed)
            self._last_observation = self._numbers(observation)
        except (Exception, SystemExit):
            with blaming(self.name):
                raise
        self._terminated = False
        self._truncated = False
        return self._last_observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment, or wait if the action is None; return an empty ``info``."""
        if action is None:
            return self._last_observation, 0.0, self._terminated, self._truncated, {}
        try:
            observation, reward, terminated, truncated, _ = self.env.step(self._base_action(action))
            self._last_observation = self._numbers(observation)
            reward = float(reward)
        except (Exception, SystemExit):
            with blaming(self.name):
                raise
        self._terminated = bool(terminated)
        self._truncated = bool(truncated)
        return self._last_observation, reward, self._terminated, self._truncated, {}

    def _base_action(self, action: Any) -> Any:
        """Return the action for the environment, in an array that it may keep."""
        space = self._base_actions
        if isinstance(space, spaces.Discrete):
            return action + self._first_action
        numbers = np.array(action, space.dtype)
        shaped = numbers.reshape(space.shape)
        if isinstance(space, spaces.MultiDiscrete):
            return shaped + space.start
        return shaped

    def _numbers(self, observation: Any) -> Any:
        if self._is_dict:
            return {name: as_numbers(space, observation[name]) for name, space in self._entries.items()}
        return as_numbers(self._entries["observation"], observation)


class Copies(SyncVectorEnv):
    """Copies in this process, which may wait after their end, unlike in `SyncVectorEnv`."""

    def __init__(self, makes: Sequence[Callable[[], Copy]]) -> None:
        super().__init__(makes, autoreset_mode=AutoresetMode.DISABLED)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Reset the chosen copies in order."""
        chosen = options["reset_mask"]
        for copy in np.flatnonzero(chosen).tolist():
            self._env_obs[copy], _ = self.envs[copy].reset(seed=seed[copy])
        self._terminations[chosen] = False
        self._truncations[chosen] = False
        return self._together(), {}

    def step(self, actions: Any) -> Any:
        """Step the copies that have an action, in order."""
        self._rewards = np.zeros(self.num_envs)
        for copy, action in enumerate(actions):
            if action is not None:
                outcome = self.envs[copy].step(action)
                self._env_obs[copy] = outcome[0]
                self._rewards[copy] = outcome[1]
                self._terminations[copy] = outcome[2]
                self._truncations[copy] = outcome[3]
        return self._together(), self._rewards, self._terminations.copy(), self._truncations.copy(), {}

    def _together(self) -> Any:
        """Return the last observations of all copies, in new arrays."""
        space = self.single_observation_space
        if isinstance(space, spaces.Box):  # three times as fast
            return np.array(self._env_obs, space.dtype)
        arrays: Any = create_empty_array(space, self.num_envs)
        return concatenate(space, self._env_obs, arrays)


class Processes(AsyncVectorEnv):
    """Copies in separate processes. All processes end if one fails or dies, or the driver is interrupted."""

    def __init__(self, makes: Sequence[Callable[[], Copy]]) -> None:
        self.processes = []
        # Processes that are forked from the driver would hold each other's pipes, and outlive it.
        multiprocessing.set_forkserver_preload([__name__])
        self._ask(super().__init__, makes, context="forkserver", autoreset_mode=AutoresetMode.DISABLED)

    def step(self, actions: Any) -> Any:
        """Step all copies at the same time."""
        return self._ask(super().step, actions)

    def reset(self, **options: Any) -> Any:
        """Reset the chosen copies at the same time."""
        return self._ask(super().reset, **options)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End all processes."""
        try:
            super().close_extras(timeout, terminate)
        except (EOFError, OSError):  # a process is dead
            self._end()

    def _ask(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a method, and end all processes if it fails: a late reply could be mistaken for the next one."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Gymnasium prints the traceback of a process as a warning
                return method(*arguments, **options)
        except (EOFError, OSError):
            wait([process.sentinel for process in self.processes], SECONDS_TO_END)
            ended = [str(process.exitcode) for process in self.processes if process.exitcode is not None]
            self._end()
            raise UserError(
                f"a process of a copy has ended (exit status {', '.join(ended)}); its own messages tell more"
            ) from None
        except BaseException:  # also Ctrl-C
            self._end()
            raise

    def _end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        self.closed = True


def entries_of(space: Space[Any], env: str) -> dict[str, Space[Any]]:
    """Return the numeric spaces of observations by name: the entries of a Dict, or the space itself.

    Raises:
        UserError: if there are none, or if a name is reserved.
    """
    entries: dict[str, Space[Any]] = {"observation": space}
    if isinstance(space, spaces.Dict):
        entries = space.spaces
    entries = {name: part for name, part in entries.items() if isinstance(part, NUMBERS)}
    if not entries:
        raise UserError(
            f"{env} has the observation space {space}; expected a Box, Discrete, MultiDiscrete or MultiBinary space, "
            "or a Dict or Tuple of them"
        )
    if taken := sorted(RESERVED & entries.keys()):
        raise UserError(f"{env} has an observation named {taken[0]!r}, a reserved name; rename it with a wrapper")
    return entries


def numeric_space(space: Space[Any]) -> spaces.Box:
    """Return the numeric space of an entry: an image of bytes, or 32-bit numbers."""
    if not isinstance(space, spaces.Box):
        return spaces.Box(-np.inf, np.inf, (flatdim(space),), np.float32)
    if space.dtype == np.uint8:
        return spaces.Box(0, 255, space.shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, space.shape, np.float32)


def as_numbers(space: Space[Any], observation: Any) -> Any:
    """Return an entry as an array; other spaces than a Box are flattened, with one-hot choices."""
    if isinstance(space, spaces.Box):
        return observation
    return flatten(space, observation)


def numbered_actions(space: Space[Any], env: str) -> Space[Any]:
    """Return the action space with numbers from 0, or flattened to a vector."""
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec.reshape(-1))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low = space.low.reshape(-1).astype(np.float32)
        high = space.high.reshape(-1).astype(np.float32)
        return spaces.Box(low, high, dtype=np.float32)
    raise UserError(
        f"{env} has the action space {space}; expected a Discrete or MultiDiscrete space, or a Box of floating-point "
        "numbers: convert it with a wrapper, such as gymnasium.wrappers.TransformAction or DiscretizeAction"
    )
