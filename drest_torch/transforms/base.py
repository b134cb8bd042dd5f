"""The base classes and helpers of transforms: state in the tensordict, and resets within a step."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data import Categorical, Composite, MultiCategorical, OneHot, TensorSpec, Unbounded
from torchrl.envs import EnvBase, Transform, TransformedEnv, VecGymEnvTransform

from drest_torch.errors import ConfigError, UserError
from drest_torch.transforms.streams import RandomStream, SeedsTransforms, seeded_transforms

Entries = dict[str, TensorSpec]
LEVEL = "level_seed"
"""The key of the seed of a level in the tensordict of a reset."""


class StatefulTransform(Transform):
    """A transform with its state in the tensordict: entries that steps update and resets initialise.

    The object itself has no state, so a slot can be reset, saved or stepped without the others.
    """

    comes_before: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The names of transforms that must come after this one, by an entry of each."""
    adds: ClassVar[tuple[str, ...]] = ()
    """The names of further entries that the transform adds."""
    _place: tuple[torch.Size, torch.device | None] | None = None
    """The batch size and the device of `_specs`."""

    def set_container(self, container: Transform | EnvBase) -> None:
        """Attach the transform to an environment, or to a `Compose`."""
        super().set_container(container)
        if self.parent is not None:  # None in a `Compose` without an environment
            self.check_environment(self.parent)

    def check_environment(self, env: EnvBase) -> None:
        """Refuse an environment that already has entries of this transform, or of a later one."""
        name = type(self).__name__
        entries_of_env = set(env.observation_spec) | set(env.state_spec)
        for key, later in self.comes_before.items():
            if key in entries_of_env:
                raise ConfigError(
                    f"{name} finds '{key}' in {title(env)} already; put {name} before {later}, or rename the entry "
                    "with RenameTransform"
                )
        added = {*self.entries(env.batch_size, env.device), *self.adds} - {LEVEL}
        taken = sorted(entries_of_env & added)
        if taken:
            raise ConfigError(
                f"{name} adds '{taken[0]}', but {title(env)} already has such an entry; attach {name} once, or rename "
                "the entry with RenameTransform"
            )

    @abstractmethod
    def entries(self, batch: torch.Size, device: torch.device | None) -> Entries:
        """Return the specs of the entries, each of shape [*batch, …]; every value is 0 after a reset."""

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the entries to the observation spec."""
        for name, spec in self.entries(observation_spec.shape, observation_spec.device).items():
            observation_spec[name] = spec
        return observation_spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Add the entries to the state spec, as inputs of a step."""
        state = input_spec["full_state_spec"]
        for name, spec in self.entries(state.shape, state.device).items():
            state[name] = spec
        return input_spec

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        place = (tensordict_reset.batch_size, tensordict_reset.device)
        if self._place != place:
            self._place, self._specs = place, self.entries(*place)
        for name, spec in self._specs.items():
            tensordict_reset.set(name, spec.zero())
        return tensordict_reset

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Refuse batches of data, because the state needs the steps in order."""
        raise RuntimeError(f"{type(self).__name__} needs the steps one after the other; it works in a TransformedEnv")


class SamplingTransform(StatefulTransform):
    """A transform with random numbers, seeded by `env.set_seed`."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.random = RandomStream(seed)

    def set_seed(self, seed: int | None) -> None:
        """Seed the random numbers."""
        self.random.restart(seed)

    def set_container(self, container: Transform | EnvBase) -> None:
        """Attach the transform, and extend `set_seed` of the environment to it."""
        super().set_container(container)
        if self.parent is not None and (env := self.container) is not None:
            env.__dict__["set_seed"] = SeedsTransforms(env)


def whole(batch: torch.Size, device: torch.device | None, dtype: torch.dtype = torch.int64) -> TensorSpec:
    """Return the spec of a number [*batch, 1], by default an integer."""
    return Unbounded((*batch, 1), dtype=dtype, device=device)


def index_of(count: int, batch: torch.Size, device: torch.device | None) -> TensorSpec:
    """Return the spec of an index [*batch, 1] below ``count``."""
    return Categorical(count, shape=(*batch, 1), dtype=torch.int64, device=device)


def check_whole(owner: str, **values: Any) -> None:
    """Refuse an argument that is not a whole number of at least 1."""
    for name, value in values.items():
        if not isinstance(value, Integral) or value < 1:
            raise ConfigError(f"{owner} with {name}={value}; expected a whole number of at least 1")


def column(tensordict: TensorDictBase, key: NestedKey) -> Tensor:
    """Return an entry as [*batch, 1]."""
    value: Tensor = tensordict.get(key)
    if value.ndim == tensordict.batch_dims:
        return value.unsqueeze(-1)
    return value


def choose(mask: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Return ``new`` where the mask [*batch, 1] is true, else ``old`` [*batch, …]."""
    if new.shape != old.shape:
        raise UserError(
            f"an entry of shape {tuple(new.shape)} was {tuple(old.shape)} before; let the environment return what "
            "its observation_spec declares"
        )
    return torch.where(mask.reshape(*mask.shape[:-1], *[1] * (new.ndim - mask.ndim + 1)), new, old)


def overwrite(target: TensorDictBase, source: TensorDictBase, mask: Tensor, keys: Iterable[NestedKey]) -> None:
    """Copy these entries from ``source`` where the mask [*batch, 1] is true."""
    for key in keys:
        target.set(key, choose(mask, source.get(key), target.get(key)))


def appended(env: EnvBase, *transforms: Transform) -> TransformedEnv:
    """Return an environment with these transforms appended."""
    if not isinstance(env, TransformedEnv):
        env = TransformedEnv(env)
    for transform in transforms:
        env.append_transform(transform)
    return env


def reset_slots(
    env: EnvBase, tensordict: TensorDictBase, mask: Tensor, *, level: Tensor | None, unchanged: Collection[NestedKey]
) -> None:
    """Reset the slots in the mask [*batch, 1], and update all entries of the tensordict but the ``unchanged`` ones.

    ``level`` [*batch, 1] are the seeds of the slots' levels; None: the environment chooses its levels.
    """
    before = TensorDict(dict(tensordict.items()), batch_size=tensordict.batch_size, device=tensordict.device)
    if level is not None:
        before.set(LEVEL, level)
    for key in env.done_keys:
        before.set(key, mask.clone())
    for key in env.reset_keys:
        before.set(key, mask.clone())
    after = env.reset(before).exclude(LEVEL)  # TorchRL would set this input of the reset to 0
    entries = {*observation_keys(env), *env.state_spec.keys(True, True)}
    updated = [key for key in entries.difference(unchanged) if key in after.keys(True, True)]
    overwrite(tensordict, after, mask, updated)


def set_done(env: EnvBase, tensordict: TensorDictBase, done: Tensor) -> None:
    """Set ``done`` and ``terminated`` [*batch, 1], and clear all other flags of ends."""
    for key in env.done_keys:
        if key not in ("done", "terminated"):
            tensordict.set(key, torch.zeros_like(done))
    for key in ("done", "terminated"):
        tensordict.set(key, done.clone())


def set_seed(env: EnvBase, seed: int) -> None:
    """Seed an environment and its transforms with the same number, as in runs."""
    env.set_seed(seed)
    for transform in seeded_transforms(env):
        transform.set_seed(seed)


def observation_keys(env: EnvBase) -> list[NestedKey]:
    """Return the keys of all observations of an environment."""
    return list(env.observation_spec.keys(include_nested=True, leaves_only=True))


def is_choice(spec: TensorSpec | None, batch_dims: int) -> bool:
    """Return whether an action is one of n; subclasses of `Categorical` and `OneHot` can have several simultaneous
    choices."""
    if spec is None or type(spec) not in (Categorical, OneHot):
        return False
    expected = int(isinstance(spec, OneHot))
    dimensions: int = spec.ndim - batch_dims
    return dimensions == expected


def choices(spec: TensorSpec | None, batch_dims: int) -> list[int] | None:
    """Return the numbers of options of a multi-categorical action, or None for other action spaces."""
    if not isinstance(spec, MultiCategorical) or spec.ndim != batch_dims + 1:
        return None
    counts: list[int] = spec.nvec.reshape(-1, spec.shape[-1])[0].tolist()
    return counts


def innermost(env: EnvBase) -> EnvBase:
    """Return an environment without its transforms."""
    while isinstance(env, TransformedEnv):
        env = env.base_env
    return env


def check_resets(owner: str, env: EnvBase) -> None:
    """Refuse an environment whose copies cannot be reset separately."""
    name = title(env)
    while isinstance(env, TransformedEnv):
        if any(isinstance(transform, VecGymEnvTransform) for transform in env.transform.modules()):
            raise ConfigError(
                f"{owner} resets single copies when their mini-episodes end, but those of {name} (num_envs) reset "
                "themselves; use SerialEnv(n, make) or ParallelEnv(n, make) of single environments, or "
                "GymnasiumBatch(id, n)"
            )
        env = env.base_env


def stays_ended(env: EnvBase) -> bool:
    """Return whether an ended environment repeats its last observation, with reward 0, until it is reset."""
    return bool(getattr(type(innermost(env)), "stays_ended", False))


def title(env: EnvBase) -> str:
    """Return the name of an environment for messages, by default that of its class."""
    env = innermost(env)
    name = vars(env).get("name")  # `getattr` would query the environments of a batched one
    if isinstance(name, str):
        return name
    return type(env).__name__


def check_finite(reward: Tensor, env: EnvBase) -> None:
    """Refuse a reward of NaN or infinity."""
    if math.isfinite(reward.sum().item()):  # ten times as fast as the check below
        return
    if not torch.isfinite(reward).all():
        raise ConfigError(
            f"{title(env)} paid a reward of NaN or infinity; mend its reward, or limit it (RewardClipping)"
        )
