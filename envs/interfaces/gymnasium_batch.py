"""Copies of any Gymnasium environment as one batched TorchRL environment.

TorchRL's own ``GymEnv(num_envs=B)`` resets a copy within the step that ends its episode and hides the last
observation. Here a copy is reset only when it is asked for, through the usual ``"_reset"`` mask. This module needs
``gymnasium`` (the extra ``envs``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, Unbounded
from torchrl.envs import EnvBase

from drest_torch.errors import UserError, blaming

try:
    import gymnasium
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise UserError("Gymnasium environments need gymnasium; pip install 'drest_torch[envs]'") from error

from drest_torch.envs.interfaces.gymnasium_copies import Copies, Plan, Workers
from drest_torch.envs.interfaces.gymnasium_spaces import Array, action_row, check_actions, observation_entries

ENDS = ("done", "terminated", "truncated")


class GymnasiumBatch(EnvBase):
    """A batch of copies of a Gymnasium environment.

    Observations: a Box is float32, or uint8 if it is uint8; a Discrete or MultiDiscrete space is one-hot float32; a
    MultiBinary space is float32. A single one is called ``observation``; those of a Dict have its keys, nested ones
    joined by "_". Entries that are not numbers, such as texts, are left out. Actions: a Discrete space is Categorical
    [B], a MultiDiscrete space MultiCategorical [B, d], a Box Bounded [B, d].

    A copy whose episode has ended and that was not reset is left alone: it repeats its last observation and is paid 0.
    If the tensordict of a reset has ``level_seed`` [B, 1], the copies with a value of at least 0 are reset with that
    seed, so that they play the same level again.

    Args:
        make: the id of a registered environment, or a function that makes one.
        copies: B, the number of copies.
        workers: the number of processes that share the copies; 0 steps them in this process. The results are the same.
        options: what `gymnasium.make` is given besides an id.

    Raises:
        UserError: if the environment cannot be made or has spaces that are not supported, and later, if a copy fails,
            a worker dies or a reward is not finite.
    """

    batch_locked = True
    stays_ended = True
    """What `ShutdownTimer` asks: a copy that has ended is left alone, and need not be reset."""

    def __init__(
        self,
        make: str | Callable[[], gymnasium.Env[Any, Any]],
        copies: int,
        *,
        workers: int = 0,
        options: dict[str, Any] | None = None,
    ) -> None:
        if copies < 1:
            raise UserError(f"{copies} copies of an environment; expected at least 1")
        if workers < 0 or (workers and copies % workers):
            raise UserError(f"{copies} copies for {workers} workers; expected a multiple of the workers")
        if not isinstance(make, str) and options:
            raise UserError(f"options {sorted(options)} are for an id; a function that makes an environment takes none")
        first = _first(make, options or {})
        spec: Any = getattr(first, "spec", None)
        self.name: str = make if isinstance(make, str) else spec.id if spec else type(first.unwrapped).__name__
        # Gymnasium's check of what an environment returns takes a fifth of the time of CartPole: one is checked.
        make_copy = partial(gymnasium.make, spec, disable_env_checker=True) if isinstance(make, str) else make
        try:
            check_actions(first.action_space, self.name)
            entries = observation_entries(first.observation_space, self.name)
        except UserError:
            first.close()
            raise
        super().__init__(device=torch.device("cpu"), batch_size=torch.Size([copies]))
        plan = Plan(make_copy, self.name, first.action_space, entries)
        self._make_specs(plan)
        self._set_seed(None)
        if workers:
            first.close()
            self._copies: Copies | Workers = Workers(plan, copies, workers)
        else:
            self._copies = Copies(plan, np.zeros(copies, plan.record()), made=first)
        self._records = self._copies.records
        self._shown = [entry.name for entry in entries]

    def _make_specs(self, plan: Plan) -> None:
        (copies,) = self.batch_size
        self.observation_spec = Composite(
            {
                entry.name: Unbounded((copies, *entry.shape), dtype=getattr(torch, entry.dtype))
                for entry in plan.entries
            },
            shape=(copies,),
        )
        space, shape = plan.action, (copies, *action_row(plan.action))
        if isinstance(space, spaces.Discrete):
            self.action_spec = Categorical(int(space.n), shape=shape, dtype=torch.int64)
        elif isinstance(space, spaces.MultiDiscrete):
            self.action_spec = MultiCategorical(space.nvec.reshape(-1).tolist(), shape=shape, dtype=torch.int64)
        else:
            assert isinstance(space, spaces.Box)
            low, high = (torch.from_numpy(bound.reshape(-1)).float().expand(shape) for bound in (space.low, space.high))
            self.action_spec = Bounded(low.clone(), high.clone(), shape=shape, dtype=torch.float32)
        self.reward_spec = Unbounded((copies, 1))
        self.state_spec = Composite(level_seed=Unbounded((copies, 1), dtype=torch.int64), shape=(copies,))
        flags = {name: Binary(shape=(copies, 1), dtype=torch.bool) for name in ENDS}
        self.full_done_spec = Composite(flags, shape=(copies,))

    def render(self, i: int = 0) -> Array | None:
        """Return a picture of copy i, or None if it was not made with render_mode="rgb_array", or is in a worker."""
        return self._copies.render(i)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close all copies and end the workers."""
        super().close(raise_if_closed=raise_if_closed)
        if "_copies" in self.__dict__:
            self._copies.close()

    # ------------------------------------------------------------------------------ TorchRL's contract

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Step as `EnvBase.step` does, without its repairs of incomplete results, which take as long as the copies."""
        if "next" in tensordict or "_step" in tensordict:
            return super().step(tensordict)
        self._assert_tensordict_shape(tensordict)
        return tensordict.set("next", self._step(tensordict))

    def reset(
        self, tensordict: TensorDictBase | None = None, *, select_reset_only: bool = False, **kwargs: Any
    ) -> TensorDictBase:
        """Reset as `EnvBase.reset` does, but without a merge: what `_reset` returns is right for every copy."""
        if tensordict is None:
            return self._reset(None, **kwargs)
        self._assert_tensordict_shape(tensordict)
        asked = tensordict.select("_reset", strict=False) if select_reset_only else tensordict
        state = self._reset(asked, **kwargs)
        return tensordict.exclude("_reset", "level_seed").update(state)

    def _set_seed(self, seed: int | None) -> None:
        """Let copy i be reset, next time, with a seed derived from (seed, i); after that its own stream goes on."""
        copies = self.batch_size[0]
        if seed is None:
            self._streams = [np.random.default_rng() for _ in range(copies)]
            self._next_seed = np.full(copies, -1)
        else:
            self._streams = [np.random.default_rng((seed, i)) for i in range(copies)]
            self._next_seed = np.array([_draw(stream) for stream in self._streams])

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        given = {} if tensordict is None else tensordict
        mask, levels = given.get("_reset", None), given.get("level_seed", None)
        levels = torch.full(self.state_spec["level_seed"].shape, -1) if levels is None else levels
        records, level = self._records, levels.reshape(-1).numpy()
        records["_step"] = True if mask is None else mask.reshape(-1).numpy()
        records["level_seed"] = np.where(level >= 0, level, self._next_seed)
        self._copies.reset()
        self._next_seed[records["_step"]] = -1
        # The stream of a copy that was set to a level would go on as that of every other copy on this level.
        for i in np.flatnonzero(records["_step"] & (level >= 0)).tolist():
            self._next_seed[i] = _draw(self._streams[i])
        return TensorDict(self._state() | {"level_seed": levels}, batch_size=self.batch_size, device=self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        records, chosen = self._records, tensordict.get("_step", None)
        records["_step"] = True if chosen is None else chosen.reshape(-1).numpy()
        records["action"] = tensordict.get("action").numpy()
        self._copies.step()
        reward = torch.from_numpy(records["reward"]).float()
        if not np.isfinite(reward.numpy()).all():
            copy = int((~reward.isfinite()).nonzero()[0])
            raise UserError(
                f"{self.name}: the reward of copy {copy} is {reward[copy].item()}; expected a finite number: correct "
                "the environment, or wrap it in gymnasium.wrappers.TransformReward"
            )
        after = self._state() | {"reward": reward.unsqueeze(-1)}
        return TensorDict(after, batch_size=self.batch_size, device=self.device)

    def _state(self) -> dict[str, Tensor]:
        state = {name: torch.from_numpy(self._records[name].copy()) for name in self._shown}
        terminated, truncated = self._records["terminated"], self._records["truncated"]
        ends = torch.from_numpy(np.stack((terminated | truncated, terminated, truncated)))
        return state | dict(zip(ENDS, ends.unsqueeze(-1), strict=True))


def _draw(stream: np.random.Generator) -> int:
    return int(stream.integers(2**31))


def _first(make: Any, options: dict[str, Any]) -> Any:
    """Return a copy whose spaces are read."""
    name = make if isinstance(make, str) else getattr(make, "__name__", "the environment")
    if isinstance(make, str):
        make = partial(gymnasium.make, make, **options)
    with blaming(name):
        first = make()
    if not isinstance(first, gymnasium.Env):
        raise UserError(f"{name} makes a {type(first).__name__}; expected a gymnasium.Env")
    return first
