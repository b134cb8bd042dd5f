"""A TorchRL transform that flattens the observations of an environment to one vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, Transform

from drest_torch.errors import UserError
from drest_torch.transforms.base import title

LARGEST = 10.0
"""The clipping limit of standardised observations."""
SEEN = "seen"
"""The key of the flat observation."""


def standardised(rows: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
    """Return standardised and clipped rows of numbers [n, F]."""
    return ((rows - centre) / spread).clamp(-LARGEST, LARGEST)


class Flatten(Transform):
    """A transform that adds ``seen`` [*batch, F], the entries of an observation as one standardised vector.

    ``centre`` and ``spread`` [F] are measured once, from random actions (`measure`). Images keep their values, divided
    by 255 if they are bytes. The actor uses no other observation of the environment.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, env: EnvBase, keys: Sequence[str]) -> None:
        super().__init__()
        self.name = title(env)
        self.shapes: dict[str, tuple[int, ...]] = {}
        """The shape of each entry, in their order in the vector."""
        largest = {}
        for key in keys:
            spec = env.observation_spec[key]
            self.shapes[key] = tuple(spec.shape[len(env.batch_size) :])
            largest[key] = 1.0
            if spec.dtype == torch.uint8:
                largest[key] = 255.0
        spread = self._by_entry(largest)
        self.shape = tuple(spread.shape)
        self.register_buffer("centre", torch.zeros_like(spread))
        self.register_buffer("spread", spread)

    def _by_entry(self, values: Mapping[str, float]) -> Tensor:
        """Return the values [F] of the entries, repeated for each of their numbers."""
        parts = [torch.full((math.prod(shape),), values[key]) for key, shape in self.shapes.items()]
        return torch.cat(parts)

    def rows(self, tensordict: TensorDictBase) -> Tensor:
        """Return the flat observations before standardisation [*batch, F]."""
        batch, parts = tensordict.batch_size, []
        for key, shape in self.shapes.items():
            numbers = math.prod(shape)
            value: Tensor = tensordict.get(key)
            if value.numel() != batch.numel() * numbers:
                raise UserError(
                    f"{self.name} shows '{key}' of shape {tuple(value.shape)}, but declares {(*batch, *shape)}; let it "
                    "return what its observation_spec declares"
                )
            parts.append(value.reshape(*batch, numbers).float())
        rows = parts[0]
        if len(parts) > 1:
            rows = torch.cat(parts, -1)
        if not math.isfinite(rows.sum().item()):  # ten times as fast as the check below
            self._refuse_infinite(parts)
        return rows

    def _refuse_infinite(self, parts: Sequence[Tensor]) -> None:
        """Refuse entries with NaN or infinity."""
        for key, part in zip(self.shapes, parts, strict=True):
            if not part.isfinite().all():
                raise UserError(
                    f"{self.name} shows NaN or infinity in '{key}'; mend the environment, or leave this out with "
                    "env.observed"
                )

    def standardised(self, rows: Tensor) -> Tensor:
        """Return standardised and clipped rows."""
        return standardised(rows, self.centre, self.spread)

    def measure(self, rows: Tensor) -> None:
        """Measure the mean and the standard deviation of vector entries from rows [n, F], except for the timer."""
        is_vector = {key: len(shape) == 1 and key != "timer" for key, shape in self.shapes.items()}
        is_standardised = self._by_entry(is_vector).bool()  # [F]
        mean, spread = rows.mean(0), rows.std(0)
        self.centre[is_standardised] = mean[is_standardised]
        self.spread[is_standardised] = torch.where(spread > 1e-6, spread, 1)[is_standardised]

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.set(SEEN, self.standardised(self.rows(next_tensordict)))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        observation_spec[SEEN] = Unbounded((*observation_spec.shape, *self.shape), device=observation_spec.device)
        return observation_spec
