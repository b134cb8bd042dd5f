"""An exponential moving average (EMA) of a policy's weights, which is evaluated and saved in place of the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel


def averaged_model(policy: Any, decay: float) -> AveragedModel:
    """Return a copy of a policy for the average of its weights.

    With a decay d and after n steps, the weights of step i have the share d^(n-i) · (1-d) / (1-d^n), as in Adam. The
    initial weights have no share, and the average of a short run is nearly the mean of its steps. With a decay of 1 it
    is their mean (stochastic weight averaging).
    """
    return AveragedModel(policy, multi_avg_fn=partial(_move, decay))


@torch.no_grad()
def _move(decay: float, averaged: Sequence[Any], current: Sequence[Any], averaged_steps: Tensor | int) -> None:
    """Move the averages of so many steps towards the current weights."""
    torch._foreach_lerp_(list(averaged), list(current), newest_share(decay, int(averaged_steps) + 1))


def newest_share(decay: float, steps: int) -> float:
    """Return the share of the last step in the average of so many steps."""
    if decay == 1:
        return 1 / steps
    return (1 - decay) / (1 - decay**steps)
