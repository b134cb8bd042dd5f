"""A TorchRL transform that squashes unbounded actions of a policy into a box."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite, Unbounded
from torchrl.envs import Transform


class Squash(Transform):
    """A transform that maps real actions into a box by tanh, with the bounds of the environment."""

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.low, self.high = low, high

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        spec = input_spec["full_action_spec"]["action"]
        input_spec["full_action_spec"]["action"] = Unbounded(spec.shape, dtype=spec.dtype, device=spec.device)
        return input_spec

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict.get("action", None)
        if action is None:
            return tensordict
        return tensordict.set("action", squashed(action, self.low, self.high))


def squashed(action: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return real numbers [n, d] squashed into a box."""
    return torch.lerp(low, high, (action.tanh() + 1) / 2).clamp(low, high)
