"""The base classes of the algorithms: networks, optimisers and schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from omegaconf import MISSING
from torch import Tensor, nn

from drest_torch.limits import limited

CREDITS = ("mini", "meta")
"""``mini``: the return of a step is the reward of its own mini-episode, as in the paper. ``meta``: it extends to the
end of the meta-episode, so the choice of a length is also credited with its effect on later discounts."""
WIDE = 8
"""Muon trains weight matrices with at least this many rows and columns."""


@dataclass
class NetworkConfig:
    """The settings of every algorithm that trains a network."""

    name: str = MISSING
    """The module in algos/."""
    credit: str = limited(choices=CREDITS, default="mini")
    """Credit horizon: mini (a mini-episode, as in the paper) or meta (the whole meta-episode)."""
    lr: float = limited(at_least=0, default=0.001)
    """Learning rate of Adam at the start."""
    lr_end: float = limited(at_least=0, default=0.0)
    """What `lr` falls to, linearly over the run."""
    muon_lr: float | None = limited(at_least=0, default=None)
    """Learning rate of Muon at the start, which then trains all wide weight matrices; null: Adam trains them too."""
    muon_lr_end: float = limited(at_least=0, default=0.0)
    """What `muon_lr` falls to, linearly over the run."""
    adam_eps: float = limited(above=0, default=1e-05)
    """Epsilon in Adam's denominator."""
    entropy: float = limited(at_least=0, default=0.1)
    """Weight of the entropy bonus at the start."""
    entropy_end: float = limited(at_least=0, default=0.0)
    """What `entropy` falls to, linearly over the run."""
    max_grad_norm: float = limited(above=0, finite=False, default=0.5)
    """The gradient is scaled down to this norm."""


def linear(start: float, end: float, progress: float) -> float:
    """Return the value of a linear schedule from ``start`` to ``end``, for a ``progress`` from 0 to 1."""
    return start + (end - start) * min(max(progress, 0.0), 1.0)


class Learner(ABC):
    """An algorithm and its policy."""

    learns_from: Literal["mini-episodes", "levels", "world"] = "mini-episodes"
    """The argument of `update`: a TensorDict of mini-episodes, levels whose outcome is known in closed form
    (`drest_torch.training.exact_levels.ExactBatch`), or the number of mini-episodes to play in a world that the learner
    holds itself."""
    needs_critic = False
    own_policy: type[nn.Module] | None = None
    """The kind of policy that the algorithm trains, made from an observation; None: networks."""

    def __init__(self, policy: Any, critic: Any, config: Any, rng: torch.Generator) -> None:
        self.policy, self.critic, self.config, self.rng = policy, critic, config, rng
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def set_progress(self, progress: float) -> None:  # noqa: B027 (schedules are optional)
        """Set the schedules to this fraction of the run, from 0 to 1."""

    @abstractmethod
    def scheduled(self) -> dict[str, float]:
        """Return the current values of the schedules, as metrics."""

    @abstractmethod
    def update(self, batch: Any) -> dict[str, Tensor]:
        """Make one update on what `learns_from` names; return the metrics of `docs/explanation/metrics.md`."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the state besides that of networks and optimisers; writing to these tensors restores it."""
        return {}


class NetworkLearner(Learner):
    """An algorithm that trains the weights of its policy, and of its critic if it has one, by gradients.

    The optimiser is Adam. If ``muon_lr`` is set, Muon (Jordan et al. 2024) trains all matrices except the narrow ones
    of the last layers: it makes the steps of a matrix orthogonal, so that all directions are learned at the same pace.
    """

    def __init__(self, policy: Any, critic: Any, config: Any, rng: torch.Generator) -> None:
        super().__init__(policy, critic, config, rng)
        self.networks = nn.ModuleList([policy] if critic is None else [policy, critic])
        parameters = list(self.networks.parameters())
        matrices = [] if config.muon_lr is None else [parameter for parameter in parameters if _is_wide(parameter)]
        others = [parameter for parameter in parameters if not any(parameter is matrix for matrix in matrices)]
        self.optimizers["adam"] = torch.optim.Adam(others, lr=config.lr, eps=config.adam_eps)
        if matrices:
            self.optimizers["muon"] = torch.optim.Muon(matrices, lr=config.muon_lr, weight_decay=0.0)
        self.set_progress(0.0)

    def set_progress(self, progress: float) -> None:
        self.lr = linear(self.config.lr, self.config.lr_end, progress)
        self.entropy_coeff = linear(self.config.entropy, self.config.entropy_end, progress)
        rates = {"adam": self.lr}
        if "muon" in self.optimizers:
            rates["muon"] = linear(self.config.muon_lr, self.config.muon_lr_end, progress)
        for name, rate in rates.items():
            self.optimizers[name].param_groups[0]["lr"] = rate

    def scheduled(self) -> dict[str, float]:
        return {"optim/lr": self.lr, "optim/entropy_coeff": self.entropy_coeff}

    def descend(self, loss: Tensor) -> Tensor:
        """Take one optimiser step; return the norm of the gradient before clipping."""
        self.networks.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.networks.parameters(), self.config.max_grad_norm)
        for optimizer in self.optimizers.values():
            optimizer.step()
        return norm


def _is_wide(parameter: Tensor) -> bool:
    return parameter.ndim == 2 and min(parameter.shape) >= WIDE
