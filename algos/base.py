"""The base classes of the algorithms: networks, optimisers, schedules, and the loop over minibatches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from omegaconf import MISSING
from torch import Tensor, nn

from drest_torch.algos.advantages import CREDITS, estimate
from drest_torch.algos.batch import Batch, Part
from drest_torch.algos.generators import Generators
from drest_torch.algos.networks.base import NetworkSize, Symmetries
from drest_torch.algos.networks.convolutional import weights_unchanged
from drest_torch.algos.networks.policy import Policy
from drest_torch.limits import limited

WIDE = 8
"""Muon trains weight matrices with at least this many rows and columns."""


@dataclass
class NetworkConfig:
    """The settings of every algorithm that trains a network; `configs/algo/_network.yaml` explains the keys."""

    name: str = MISSING
    credit: str = limited(choices=CREDITS)
    lr: float = limited(at_least=0)
    lr_end: float = limited(at_least=0)
    muon_lr: float | None = limited(at_least=0)
    muon_lr_end: float = limited(at_least=0)
    adam_eps: float = limited(above=0)
    entropy: float = limited(at_least=0)
    entropy_end: float = limited(at_least=0)
    max_grad_norm: float = limited(above=0, finite=False)


@dataclass
class SampledConfig(NetworkConfig):
    """The further settings of algorithms that learn from sampled mini-episodes."""

    episodes: int = limited(at_least=1)
    minibatches: int = limited(at_least=1)
    normalise_advantage: bool = MISSING


@dataclass
class CriticConfig(SampledConfig):
    """The further settings of algorithms with a critic."""

    critic_width: int | None = limited(at_least=1)
    gae_lambda: float = limited(at_least=0, at_most=1)
    critic_coeff: float = limited(at_least=0)


def linear(start: float, end: float, progress: float) -> float:
    """Return the value of a linear schedule from ``start`` to ``end``, for a ``progress`` from 0 to 1."""
    return start + (end - start) * min(max(progress, 0.0), 1.0)


class Learner(ABC):
    """An algorithm and its policy."""

    learns_from: Literal["mini-episodes", "levels", "world"] = "mini-episodes"
    """The argument of `update`: mini-episodes (`Batch`), levels whose outcome is known in closed form (`ExactBatch`),
    or the number of mini-episodes to play in a world that the learner holds itself."""
    needs_critic = False

    def __init__(self, policy: Any, critic: Any, config: Any, rng: Generators | torch.Generator) -> None:
        self.policy, self.critic, self.config, self.rng = policy, critic, config, Generators.of(rng)
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    @classmethod
    def new_policy(
        cls, observation: Any, num_actions: int, size: NetworkSize, private_bits: int, symmetries: Symmetries | None
    ) -> nn.Module:
        """Return an untrained policy for this kind of observation."""
        scale = observation.scale.cpu()
        return Policy(
            observation.shape, num_actions, size, scale=scale, private_bits=private_bits, symmetries=symmetries
        )

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

    def __init__(self, policy: Any, critic: Any, config: Any, rng: Generators | torch.Generator) -> None:
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
        """Take one optimiser step; return the norm of the gradient before clipping, per agent if there are several."""
        self.networks.zero_grad()
        loss.backward()
        norm = _clip(list(self.networks.parameters()), self.config.max_grad_norm, self.rng.agents)
        for optimizer in self.optimizers.values():
            optimizer.step()
        return norm


def _clip(parameters: list[nn.Parameter], max_norm: float, agents: int) -> Tensor:
    """Clip the gradient of each agent to a norm of at most ``max_norm``; return the norm before."""
    if agents == 1:
        return nn.utils.clip_grad_norm_(parameters, max_norm)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.stack([gradient.flatten(1).square().sum(-1) for gradient in gradients]).sum(0).sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp_max(1.0)
    for gradient in gradients:
        gradient.mul_(factor.reshape(-1, *[1] * (gradient.ndim - 1)))
    return norm


def _is_wide(parameter: Tensor) -> bool:
    return parameter.ndim == 2 and min(parameter.shape) >= WIDE


class SampledLearner(NetworkLearner):
    """A policy-gradient algorithm on batches of sampled mini-episodes; subclasses define the objective."""

    epochs = 1

    def advantages(self, batch: Batch, whole: Part) -> tuple[Tensor, Tensor | None]:
        """Return the advantages [N] and, if there is a critic, its target values [N]."""
        assert self.critic is not None
        with torch.no_grad():
            value = torch.empty_like(batch.log_prob).index_copy(0, whole.steps, whole.value(self.critic))
        return estimate(batch, value, self.config.gae_lambda, self.config.credit)

    def objective(self, log_prob: Tensor, log_prob_then: Tensor, advantage: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the contribution of each step to the objective [n], and metrics [n]."""
        return log_prob * advantage, {}

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Make one update on a batch; return metrics [A], one value for each agent."""
        return self.improve(batch, *self.weigh(batch))

    def weigh(self, batch: Batch) -> tuple[Part, Tensor, Tensor | None]:
        """Return all steps of a batch, their advantages [N] and, if there is a critic, its target values [N]."""
        whole = batch.whole()
        return whole, *self.advantages(batch, whole)

    def improve(self, batch: Batch, whole: Part, advantage: Tensor, target: Tensor | None) -> dict[str, Tensor]:
        """Train on what `weigh` returns; return metrics [A]."""
        metrics = {}
        if target is not None:
            residual, total = (whole.spread(value[whole.steps]) for value in (advantage, target))
            metrics["critic/explained_variance"] = 1 - residual.square() / total.square().clamp_min(1e-8)
        if self.config.normalise_advantage:
            advantage = _normalised(advantage, whole)
        entropy_coeff = torch.tensor(self.entropy_coeff, device=advantage.device)
        history = [
            self._step(part, batch.log_prob[part.steps], advantage[part.steps], _at(target, part), entropy_coeff)
            for _ in range(self.epochs)
            for part in batch.parts(self.config.minibatches, self.rng)
        ]
        return metrics | {name: torch.stack([step[name] for step in history]).mean(0) for name in history[0]}

    def _step(self, *minibatch: Any) -> dict[str, Tensor]:
        with weights_unchanged(self.policy, self.critic):
            loss, metrics = self.loss(*minibatch)
        return {name: value.detach() for name, value in metrics.items()} | {"optim/grad_norm": self.descend(loss.sum())}

    def loss(
        self, part: Part, log_prob_then: Tensor, advantage: Tensor, target: Tensor | None, entropy_coeff: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss [A] and metrics [A]."""
        log_prob, entropy = part.evaluate(self.policy)
        objective, further = self.objective(log_prob, log_prob_then, advantage)
        metrics = {name: part.mean(value) for name, value in further.items()}
        metrics["loss/objective"], metrics["policy/entropy"] = part.mean(objective), part.mean(entropy)
        loss = -metrics["loss/objective"] - entropy_coeff * metrics["policy/entropy"]
        if self.critic is not None and target is not None:
            metrics["loss/critic"] = 0.5 * part.mean((part.value(self.critic) - target).square())
            loss = loss + self.config.critic_coeff * metrics["loss/critic"]
        return loss, metrics


def _at(value: Tensor | None, part: Part) -> Tensor | None:
    return None if value is None else value[part.steps]


def _normalised(advantage: Tensor, whole: Part) -> Tensor:
    """Return the advantages [N] with mean 0 and standard deviation 1 for each agent."""
    values = advantage[whole.steps]
    scaled = (values - whole.each(whole.mean(values))) / whole.each(whole.spread(values) + 1e-8)
    return torch.empty_like(advantage).index_copy(0, whole.steps, scaled)
