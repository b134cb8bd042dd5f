"""Copies of any Gymnasium environment as one batched TorchRL environment, by TorchRL's `GymWrapper`.

TorchRL's ``GymEnv(num_envs=B)`` lets copies reset themselves. Here a copy is reset only through the usual ``"_reset"``
mask. This module needs ``gymnasium`` (the extra ``envs``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Categorical, Composite, MultiCategorical, Unbounded
from torchrl.envs import GymWrapper

from drest_torch.errors import UserError, blaming

try:
    import gymnasium
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise UserError("Gymnasium environments need gymnasium; pip install 'drest_torch[envs]'") from error

from drest_torch.envs.interfaces.gymnasium_copies import Copies, Copy, Processes

ENDS = ("done", "terminated", "truncated")
LEVEL = "level_seed"
"""The key of the seeds of levels in a reset."""


class GymnasiumBatch(GymWrapper):
    """A batch of copies of a Gymnasium environment.

    Observations: a Box is float32, or uint8 if it is uint8; other spaces are flattened to a float32 vector with one-hot
    choices. The numeric entries of a Dict keep their keys; the key of other observations is ``observation``. Actions: a
    Discrete space is Categorical [B], a MultiDiscrete space MultiCategorical [B, d], a Box Bounded [B, d].

    A copy waits between the end of its episode and its reset: it repeats its last observation, with reward 0. If the
    tensordict of a reset has ``level_seed`` [B, 1], copies with a value of at least 0 are reset with that seed, so that
    they play the same level again.

    Args:
        make: the id of a registered environment, or a function that makes one.
        copies: B, the number of copies.
        workers: 0 for copies in this process, B for separate processes. The results are the same.
        options: further arguments of `gymnasium.make`, for an id.
        wrapped: further arguments of `GymWrapper`.

    Raises:
        UserError: if the environment cannot be made or has unsupported spaces, and later, if a copy fails or its
        process
            dies.
    """

    stays_ended = True
    """True, because a copy waits after its end and need not be reset (see `ShutdownTimer`)."""

    def __init__(
        self,
        make: str | Callable[[], gymnasium.Env[Any, Any]],
        copies: int,
        *,
        workers: int = 0,
        options: dict[str, Any] | None = None,
        **wrapped: Any,
    ) -> None:
        if copies < 1:
            raise UserError(f"{copies} copies of an environment; expected at least 1")
        if workers not in (0, copies):
            raise UserError(f"{workers} workers for {copies} copies; expected 0, or {copies}, a process for each copy")
        if isinstance(make, str):
            source = make
            # Gymnasium's environment checker takes a fifth of the time of CartPole.
            make = partial(gymnasium.make, make, disable_env_checker=True, **(options or {}))
        elif options:
            raise UserError(f"options {sorted(options)} are for an id; a function that makes an environment takes none")
        else:
            source = getattr(make, "__name__", "the environment")
        makes = [partial(Copy, make, source, os.getpid())] * copies
        with blaming(source):
            vector = Processes(makes) if workers else Copies(makes)
            self.name: str = vector.get_attr("name")[0]
        super().__init__(vector, categorical_action_encoding=True, device=torch.device("cpu"), **wrapped)
        self._ended = np.zeros((len(ENDS), copies), bool)
        self._set_seed(None)

    def _make_specs(self, env: Any, batch_size: Any = None) -> None:
        super()._make_specs(env, batch_size)
        copies, space = env.num_envs, env.single_action_space
        if isinstance(space, spaces.Discrete):
            self.action_spec = Categorical(int(space.n), shape=(copies,), dtype=torch.int64)
        elif isinstance(space, spaces.MultiDiscrete):
            self.action_spec = MultiCategorical(space.nvec.tolist(), shape=(copies, *space.shape), dtype=torch.int64)
        self.state_spec = Composite({LEVEL: Unbounded((copies, 1), dtype=torch.int64)}, shape=(copies,))

    def render(self, copy: int = 0) -> Any:
        """Return a picture of a copy, or None unless render_mode="rgb_array"."""
        if self._env.render_mode != "rgb_array":
            return None
        with blaming(self.name):
            return np.asarray(self._env.render()[copy])

    # ------------------------------------------------------------------------------ TorchRL's contract

    def reset(
        self, tensordict: TensorDictBase | None = None, *, select_reset_only: bool = False, **kwargs: Any
    ) -> TensorDictBase:
        """Reset the environment like `EnvBase.reset`, but leave the merge of old and new entries to `_reset`."""
        if tensordict is None:
            return self._reset(None, **kwargs)
        self._assert_tensordict_shape(tensordict)
        arguments = tensordict
        if select_reset_only:
            arguments = tensordict.select("_reset", strict=False)
        state = self._reset(arguments, **kwargs)
        return tensordict.exclude("_reset", LEVEL).update(state)

    def _set_seed(self, seed: int | None) -> None:
        """Seed the next reset of copy i with a number derived from (seed, i); its own stream continues from there."""
        copies = self.batch_size[0]
        if seed is None:
            self._streams = [np.random.default_rng() for _ in range(copies)]
            self._next_seed = np.full(copies, -1)
        else:
            self._streams = [np.random.default_rng((seed, copy)) for copy in range(copies)]
            self._next_seed = np.array([_draw(stream) for stream in self._streams])

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        levels = torch.full((*self.batch_size, 1), -1)
        if tensordict is not None:
            levels = tensordict.get(LEVEL, levels)
        level = levels.numpy().reshape(-1)
        seeds = np.where(level >= 0, level, self._next_seed).astype(object)
        seeds[seeds < 0] = None
        chosen = self._mask(tensordict, "_reset")
        with blaming(self.name):
            observations, _ = self._env.reset(seed=seeds.tolist(), options={"reset_mask": chosen})
            self._ended = self._ended & ~chosen
            state = self._state(observations, {LEVEL: levels})
        self._next_seed[chosen] = -1
        # Without a new seed, all copies on the same level would continue with the same stream.
        for copy in np.flatnonzero(chosen & (level >= 0)).tolist():
            self._next_seed[copy] = _draw(self._streams[copy])
        return state

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict.get("action").numpy()
        actions: list[Any] = list(action)
        if action.ndim == 1:
            actions = action.tolist()
        waits = self._ended[0] | ~self._mask(tensordict, "_step")
        for copy in np.flatnonzero(waits).tolist():
            actions[copy] = None
        with blaming(self.name):
            observations, rewards, terminated, truncated, _ = self._env.step(actions)
            self._ended = np.stack((terminated | truncated, terminated, truncated))
            return self._state(observations, {"reward": torch.from_numpy(rewards).float().unsqueeze(-1)})

    def _mask(self, tensordict: TensorDictBase | None, key: str) -> Any:
        """Return the mask of copies under a key of a tensordict; all copies if the key is absent."""
        mask: Tensor | None = None
        if tensordict is not None:
            mask = tensordict.get(key, None)
        if mask is None:
            return np.ones(self.batch_size[0], bool)
        return mask.numpy().reshape(-1)

    def _state(self, observations: Any, further: dict[str, Tensor]) -> TensorDictBase:
        """Return the observations, the ends of episodes, and further entries."""
        ends = torch.from_numpy(self._ended).unsqueeze(-1)
        state: dict[str, Any] = self.read_obs(observations)
        state.update(zip(ENDS, ends, strict=True))
        state.update(further)
        return TensorDict(state, batch_size=self.batch_size, device=self.device)


def _draw(stream: np.random.Generator) -> int:
    return int(stream.integers(2**31))
