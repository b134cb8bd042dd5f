"""The input entries of `DReSTReward`: their specs, and checks of their values."""

from __future__ import annotations

from typing import NamedTuple

import torch
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data import TensorSpec
from torchrl.envs import EnvBase

from drest_torch.errors import ConfigError
from drest_torch.transforms.base import title


class RequiredEntry(NamedTuple):
    """An input entry with its type, its meaning and the remedy if it is missing."""

    dtype: torch.dtype
    meaning: str
    otherwise: str
    """The remedy for messages."""


def check_declared(env: EnvBase, key: NestedKey, entry: RequiredEntry) -> None:
    """Refuse an environment that does not declare an entry, or declares it with another type or shape."""
    batch = tuple(env.output_spec["full_observation_spec"].shape)
    problem = _problem(_declared(env, key), entry.dtype, batch, is_reward=key == "reward")
    if problem is not None:
        raise ConfigError(
            f"DReSTReward reads {key!r} ({entry.meaning}), but the environment declares {problem}; declare "
            f"Unbounded({(*batch, 1)}, dtype={entry.dtype}), or {entry.otherwise}"
        )


def _declared(env: EnvBase, key: NestedKey) -> TensorSpec | None:
    """Return the spec of an entry in the steps of an environment, or None."""
    for group in ("observation", "done", "reward"):
        spec = env.output_spec[f"full_{group}_spec"].get(key, None)
        if spec is not None:
            return spec
    return None


def _problem(spec: TensorSpec | None, dtype: torch.dtype, batch: tuple[int, ...], *, is_reward: bool) -> str | None:
    """Describe the mismatch of a spec with a dtype, or return None; only the reward needs a dimension of size 1."""
    if spec is None:
        return "no such entry"
    shapes = [(*batch, 1)]
    if not is_reward:
        shapes.append(batch)
    if _kind(spec.dtype) == _kind(dtype) and tuple(spec.shape) in shapes:
        return None
    return f"it as {spec.dtype} of shape {tuple(spec.shape)}"


def _kind(dtype: torch.dtype) -> tuple[bool, bool]:
    """Return whether values are booleans, and whether they are floating-point numbers; otherwise they are integers."""
    return dtype == torch.bool, dtype.is_floating_point


def refuse_values(key: NestedKey | None, value: Tensor, is_wrong: Tensor, expected: str) -> None:
    """Refuse the values of an entry where ``is_wrong``, if there are any."""
    if is_wrong.any():
        raise ConfigError(
            f"DReSTReward read {value[is_wrong][0].item():g} from {key!r} at the end of a mini-episode; expected "
            f"{expected}"
        )


def refuse_coins(coins: Tensor, env: EnvBase | None) -> None:
    """Refuse these infinite sums of rewards [n], if there are any."""
    if len(coins) == 0:
        return
    name = "the environment"
    if env is not None:
        name = title(env)
    raise ConfigError(
        f"{name} paid rewards that add up to {coins[0].item():g} in a mini-episode; mend its reward, or limit it "
        "(RewardClipping)"
    )
