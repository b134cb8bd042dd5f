"""Step an environment with its transforms: with TorchRL's own machinery, or without it where ours is all there is.

A TensorDict checks every entry that is set, which takes longer than the step of a small environment. Copies of a
Gymnasium environment with our transforms are stepped on plain dictionaries instead: the same functions, in the same
order, on the same tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs import Compose, EnvBase, TransformedEnv

from drest_torch.transforms import DReSTReward
from drest_torch.transforms.base import StatefulTransform

Take = Callable[[Any], tuple[Any, Any]]
"""From the entries before a step, with the action, to those after it and those that the next step begins with."""


class Entries(dict[str, Tensor]):
    """The entries of all slots, with those methods of a TensorDict that our transforms call."""

    def __init__(self, entries: Any, batch_size: torch.Size, device: torch.device | None) -> None:
        super().__init__(entries)
        self.batch_size, self.batch_dims, self.device = batch_size, len(batch_size), device

    def set(self, key: str, value: Tensor) -> Entries:
        """Set an entry, without a check."""
        self[key] = value
        return self

    def keys(self, include_nested: bool = False, leaves_only: bool = False) -> Any:
        """Return the keys; none is nested."""
        return super().keys()


def begin_with(env: EnvBase) -> tuple[TensorDictBase, Take]:
    """Reset an environment; return its first entries, and the function that takes its steps."""
    begun = env.reset()
    if not _is_ours(env):
        return begun, _by_torchrl(env)
    return cast(TensorDictBase, _plain(begun)), _by_hand(cast(TransformedEnv, env))


def _is_ours(env: EnvBase) -> bool:
    if not isinstance(env, TransformedEnv) or not isinstance(env.transform, Compose):
        return False
    known = all(isinstance(transform, StatefulTransform | DReSTReward) for transform in env.transform)
    return known and hasattr(env.base_env, "transition") and not callable(getattr(env.transform[0], "control", None))


def _by_torchrl(env: EnvBase) -> Take:
    def take(before: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        stepped, following = env.step_and_maybe_reset(before)
        return stepped.get("next"), following

    return take


def _by_hand(env: TransformedEnv) -> Take:
    transition, transforms = env.base_env.transition, list(cast(Compose, env.transform))

    def take(before: Entries) -> tuple[Entries, Entries]:
        inside: Any = Entries(before, before.batch_size, before.device)
        for transform in reversed(transforms):
            inside = transform._inv_call(inside)
        after: Any = Entries(transition(inside), before.batch_size, before.device)
        for transform in transforms:
            after = transform._step(inside, after)
        following = Entries({**before, **after}, before.batch_size, before.device)
        if after["done"].any():
            begun = TensorDict(dict(following), batch_size=following.batch_size, device=following.device)
            following = _plain(env.maybe_reset(begun))
        return after, following

    return take


def _plain(tensordict: TensorDictBase) -> Entries:
    return Entries(tensordict.items(), tensordict.batch_size, tensordict.device)
