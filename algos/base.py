"""What the algorithms share: networks, optimisers, schedules, and the loop over minibatches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch
from omegaconf import MISSING
from torch import Tensor, nn

from algos.advantages import CREDITS, estimate
from algos.batch import Batch, Part
from algos.generators import Draws
from algos.networks.base import Size, Symmetries
from algos.networks.policy import Policy
from drest_torch.limits import limited

WIDE = 8
"""Rows and columns from which on a weight matrix is Muon's."""


@dataclass
class NetworkConfig:
    """The values of every algorithm that trains a network; `configs/algo/_network.yaml` says what the keys mean."""

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
    """The values of algorithms that learn from played mini-episodes."""

    episodes: int = limited(at_least=1)
    minibatches: int = limited(at_least=1)
    normalise_advantage: bool = MISSING


@dataclass
class CriticConfig(SampledConfig):
    """The values of algorithms with a critic."""

    gae_lambda: float = limited(at_least=0, at_most=1)
    critic_coeff: float = limited(at_least=0)


def linear(start: float, end: float, progress: float) -> float:
    """A schedule: from ``start`` to ``end`` as ``progress`` goes from 0 to 1."""
    return start + (end - start) * min(max(progress, 0.0), 1.0)


class Learner(ABC):
    """An algorithm and its policy."""

    learns_from: Literal["mini-episodes", "levels", "world"] = "mini-episodes"
    """What an update is given: played mini-episodes (`Batch`), levels with their outcome in closed form
    (`ExactBatch`), or nothing but the number of mini-episodes to play in a world of its own."""
    needs_critic = False

    def __init__(self, policy: Any, critic: Any, config: Any, draws: Draws | torch.Generator) -> None:
        self.policy, self.critic, self.config, self.draws = policy, critic, config, Draws.of(draws)
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    @classmethod
    def new_policy(
        cls, observation: Any, num_actions: int, size: Size, noise: int, symmetries: Symmetries | None
    ) -> nn.Module:
        """A policy that knows nothing, for what it is shown."""
        scale = observation.scale.cpu()
        return Policy(observation.shape, num_actions, size, scale=scale, noise=noise, symmetries=symmetries)

    def set_progress(self, progress: float) -> None:  # noqa: B027 (most have schedules, none has to)
        """Where in the run we are, from 0 to 1."""

    @abstractmethod
    def scheduled(self) -> dict[str, float]:
        """The values of the schedules now, as metrics."""

    @abstractmethod
    def update(self, batch: Any) -> dict[str, Tensor]:
        """Learn from what `learns_from` says; returns the metrics of `docs/metrics.md`."""

    def tensors(self) -> dict[str, Tensor]:
        """Its own state, besides the networks' and the optimiser's; writing to them sets it."""
        return {}


class NetworkLearner(Learner):
    """An algorithm that changes the weights of its policy and, perhaps, its critic by gradients.

    Adam does it, or, where ``muon_lr`` is given, Muon (Jordan et al. 2024) for all matrices but the narrow ones of the
    last layers: it makes the steps of a matrix orthogonal, so that all directions are learned at the same pace.
    """

    def __init__(self, policy: Any, critic: Any, config: Any, draws: Draws | torch.Generator) -> None:
        super().__init__(policy, critic, config, draws)
        self.networks = nn.ModuleList([policy] if critic is None else [policy, critic])
        parameters = list(self.networks.parameters())
        matrices = [] if config.muon_lr is None else [each for each in parameters if _is_wide(each)]
        others = [each for each in parameters if not any(each is one for one in matrices)]
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
        """One optimiser step; returns the gradient's norm before clipping, of each agent if there are several."""
        self.networks.zero_grad()
        loss.backward()
        norm = _clip(list(self.networks.parameters()), self.config.max_grad_norm, self.draws.agents)
        for optimizer in self.optimizers.values():
            optimizer.step()
        return norm


def _clip(parameters: list[nn.Parameter], most: float, agents: int) -> Tensor:
    """Make the gradient of each agent at most so long, and return how long it was."""
    if agents == 1:
        return nn.utils.clip_grad_norm_(parameters, most)
    gradients = [each.grad for each in parameters if each.grad is not None]
    norm = torch.stack([each.flatten(1).square().sum(-1) for each in gradients]).sum(0).sqrt()
    share = (most / (norm + 1e-6)).clamp_max(1.0)
    for each in gradients:
        each.mul_(share.reshape(-1, *[1] * (each.ndim - 1)))
    return norm


def _is_wide(parameter: Tensor) -> bool:
    return parameter.ndim == 2 and min(parameter.shape) >= WIDE


class SampledLearner(NetworkLearner):
    """Policy gradient on batches of played mini-episodes; a subclass says what is climbed."""

    epochs = 1

    def advantages(self, batch: Batch, whole: Part) -> tuple[Tensor, Tensor | None]:
        """[N] advantages, and the values [N] that the critic is to learn, if there is one."""
        assert self.critic is not None
        with torch.no_grad():
            value = torch.empty_like(batch.log_prob).index_copy(0, whole.steps, whole.value(self.critic))
        return estimate(batch, value, self.config.gae_lambda, self.config.credit)

    def objective(self, log_prob: Tensor, log_prob_then: Tensor, advantage: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """[n] what each step adds to the objective, and metrics [n]."""
        return log_prob * advantage, {}

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Metrics are [A], one for each agent."""
        whole = batch.whole()
        advantage, target = self.advantages(batch, whole)
        metrics = {}
        if target is not None:
            left, learnt = (whole.spread(each[whole.steps]) for each in (advantage, target))
            metrics["critic/explained_variance"] = 1 - left.square() / learnt.square().clamp_min(1e-8)
        if self.config.normalise_advantage:
            advantage = _normalised(advantage, whole)
        entropy_coeff = torch.tensor(self.entropy_coeff, device=advantage.device)
        seen = [
            self._step(part, batch.log_prob[part.steps], advantage[part.steps], _at(target, part), entropy_coeff)
            for _ in range(self.epochs)
            for part in batch.parts(self.config.minibatches, self.draws)
        ]
        return metrics | {name: torch.stack([each[name] for each in seen]).mean(0) for name in seen[0]}

    def _step(self, *learnt_from: Any) -> dict[str, Tensor]:
        loss, metrics = self.loss(*learnt_from)
        return {name: value.detach() for name, value in metrics.items()} | {"optim/grad_norm": self.descend(loss.sum())}

    def loss(
        self, part: Part, log_prob_then: Tensor, advantage: Tensor, target: Tensor | None, entropy_coeff: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """[A] what the optimiser is to lower, and metrics [A]."""
        log_prob, entropy = part.evaluate(self.policy)
        gained, further = self.objective(log_prob, log_prob_then, advantage)
        metrics = {name: part.mean(value) for name, value in further.items()}
        metrics["loss/objective"], metrics["policy/entropy"] = part.mean(gained), part.mean(entropy)
        loss = -metrics["loss/objective"] - entropy_coeff * metrics["policy/entropy"]
        if self.critic is not None and target is not None:
            metrics["loss/critic"] = 0.5 * part.mean((part.value(self.critic) - target).square())
            loss = loss + self.config.critic_coeff * metrics["loss/critic"]
        return loss, metrics


def _at(value: Tensor | None, part: Part) -> Tensor | None:
    return None if value is None else value[part.steps]


def _normalised(advantage: Tensor, whole: Part) -> Tensor:
    """[N] with mean 0 and spread 1 for each agent."""
    mine = advantage[whole.steps]
    scaled = (mine - whole.each(whole.mean(mine))) / whole.each(whole.spread(mine) + 1e-8)
    return torch.empty_like(advantage).index_copy(0, whole.steps, scaled)
