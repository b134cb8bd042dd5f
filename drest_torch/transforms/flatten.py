"""One row of numbers of what an environment shows: a TorchRL transform."""

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
"""What standardised observations are limited to."""
SEEN = "seen"
"""The key of the row."""


def standardised(rows: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
    """Return rows of numbers [n, F] as a policy sees them."""
    return ((rows - centre) / spread).clamp(-LARGEST, LARGEST)


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
        self.shown: dict[str, tuple[int, ...]] = {}
        """The shape of each entry, in the order of their numbers in the row."""
        largest = {}
        for key in keys:
            spec = env.observation_spec[key]
            self.shown[key] = tuple(spec.shape[len(env.batch_size) :])
            largest[key] = 1.0
            if spec.dtype == torch.uint8:
                largest[key] = 255.0
        spread = self._of_entries(largest)
        self.shape = tuple(spread.shape)
        self.register_buffer("centre", torch.zeros_like(spread))
        self.register_buffer("spread", spread)

    def _of_entries(self, values: Mapping[str, float]) -> Tensor:
        """Return a value for each number of the row [F], given one for each entry."""
        parts = [torch.full((math.prod(shape),), values[key]) for key, shape in self.shown.items()]
        return torch.cat(parts)

    def rows(self, tensordict: TensorDictBase) -> Tensor:
        """Return the observations as they are [*batch, F]."""
        batch, parts = tensordict.batch_size, []
        for key, shape in self.shown.items():
            numbers = math.prod(shape)
            value: Tensor = tensordict.get(key)
            if value.numel() != batch.numel() * numbers:
                raise UserError(
                    f"{self.name} shows '{key}' of shape {tuple(value.shape)}, and declares {(*batch, *shape)}; let it "
                    "return what its observation_spec declares"
                )
            parts.append(value.reshape(*batch, numbers).float())
        rows = parts[0]
        if len(parts) > 1:
            rows = torch.cat(parts, -1)
        if not math.isfinite(rows.sum().item()):  # this takes a tenth of the time
            self._refuse_infinite(parts)
        return rows

    def _refuse_infinite(self, parts: Sequence[Tensor]) -> None:
        """Refuse entries that are no finite numbers."""
        for key, part in zip(self.shown, parts, strict=True):
            if not part.isfinite().all():
                raise UserError(
                    f"{self.name} shows NaN or infinity in '{key}'; mend the environment, or leave this out with "
                    "env.observed"
                )

    def standardised(self, rows: Tensor) -> Tensor:
        """Return rows as the policy sees them."""
        return standardised(rows, self.centre, self.spread)

    def measure(self, rows: Tensor) -> None:
        """Standardise vectors by the mean and the deviation of these rows [n, F], all but what a timer shows."""
        is_vector = {key: len(shape) == 1 and key != "timer" for key, shape in self.shown.items()}
        here = self._of_entries(is_vector).bool()  # [F]
        mean, spread = rows.mean(0), rows.std(0)
        self.centre[here] = mean[here]
        self.spread[here] = torch.where(spread > 1e-6, spread, 1)[here]

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.set(SEEN, self.standardised(self.rows(next_tensordict)))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        observation_spec[SEEN] = Unbounded((*observation_spec.shape, *self.shape), device=observation_spec.device)
        return observation_spec
