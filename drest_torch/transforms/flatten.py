"""One row of numbers of what an environment shows: a TorchRL transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, Transform

from drest_torch.errors import UserError
from drest_torch.transforms.base import title

LARGEST = 10.0
"""What standardised observations are limited to."""
SEEN = "seen"
"""The key of the row."""


@dataclass(frozen=True)
class Shown:
    """One entry of an observation, and where its numbers are among those of the row."""

    key: str
    shape: tuple[int, ...]
    first: int

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)


class Flatten(Transform):
    """Shows ``seen`` [*batch, F], the entries of an observation as one row of numbers, standardised.

    ``centre`` and ``spread`` [F] are measured once, from random actions (`measure`). Images keep their values, divided
    by 255 if they are bytes. The actor reads the row and nothing else of the environment.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, env: EnvBase, keys: Sequence[str]) -> None:
        super().__init__()
        self.name = title(env)
        shown, first = [], 0
        batch = len(env.batch_size)
        for key in keys:
            spec = env.observation_spec[key]
            shown.append(Shown(key, tuple(spec.shape[batch:]), first))
            first += shown[-1].numbers
        self.shown = shown
        self.shape = (first,)
        self.register_buffer("centre", torch.zeros(first))
        self.register_buffer("spread", torch.ones(first))
        for entry in shown:
            if env.observation_spec[entry.key].dtype == torch.uint8:
                self.spread[entry.first : entry.first + entry.numbers] = 255.0

    def rows(self, tensordict: TensorDictBase) -> Tensor:
        """Return the observations as they are [*batch, F]."""
        batch = tensordict.batch_size
        parts = [self._part(tensordict.get(entry.key), entry, batch) for entry in self.shown]
        rows = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        if not math.isfinite(rows.sum().item()) and not torch.isfinite(rows).all():
            keys = [entry.key for entry, part in zip(self.shown, parts, strict=True) if not part.isfinite().all()]
            raise UserError(
                f"{self.name} shows NaN or infinity in '{keys[0]}'; mend the environment, or leave this out with "
                "env.observed"
            )
        return rows

    def _part(self, value: Tensor, entry: Shown, batch: torch.Size) -> Tensor:
        """Return an entry as a row of numbers [*batch, n]."""
        if value.numel() != batch.numel() * entry.numbers:
            raise UserError(
                f"{self.name} shows '{entry.key}' of shape {tuple(value.shape)}, and declares "
                f"{(*batch, *entry.shape)}; let it return what its observation_spec declares"
            )
        return value.reshape(*batch, entry.numbers).float()

    def standardised(self, rows: Tensor) -> Tensor:
        """Return rows as the policy sees them."""
        return ((rows - self.centre) / self.spread).clamp(-LARGEST, LARGEST)

    def measure(self, rows: Tensor, fixed: Sequence[str]) -> None:
        """Standardise vectors by the mean and the deviation of these rows [n, F], all but the ``fixed`` entries."""
        mean, spread = rows.mean(0), rows.std(0)
        for entry in self.shown:
            if len(entry.shape) == 1 and entry.key not in fixed:
                here = slice(entry.first, entry.first + entry.numbers)
                self.centre[here] = mean[here]
                self.spread[here] = torch.where(spread[here] > 1e-6, spread[here], 1)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.set(SEEN, self.standardised(self.rows(next_tensordict)))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        observation_spec[SEEN] = Unbounded((*observation_spec.shape, *self.shape), device=observation_spec.device)
        return observation_spec
