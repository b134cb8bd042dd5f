"""What the algorithms share: networks, optimisers, schedules, and the loop over minibatches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from omegaconf import MISSING
from torch import Tensor, nn

from algos.advantages import estimate
from algos.batch import Batch
from algos.networks import Critic, Policy, Size
from algos.symmetric import Symmetries

WIDE = 8
"""Rows and columns from which on a weight matrix is Muon's."""


@dataclass
class NetworkConfig:
    """What every algorithm that trains a network is told; `configs/algo/*.yaml` says what the keys mean."""

    name: str = MISSING
    observation: str = MISSING
    counting: str = MISSING
    episodes_at_start: int | None = MISSING
    credit: str = MISSING
    lr: float = MISSING
    lr_end: float = MISSING
    muon_lr: float | None = MISSING
    muon_lr_end: float = MISSING
    adam_eps: float = MISSING
    entropy: float = MISSING
    entropy_end: float = MISSING
    max_grad_norm: float = MISSING


@dataclass
class SampledConfig(NetworkConfig):
    """What algorithms that learn from played mini-episodes are told besides."""

    episodes: int = MISSING
    minibatches: int = MISSING
    normalise_advantage: bool = MISSING


@dataclass
class CriticConfig(SampledConfig):
    """What algorithms with a critic are told besides."""

    gae_lambda: float = MISSING
    critic_coeff: float = MISSING


def linear(start: float, end: float, progress: float) -> float:
    """A schedule: from ``start`` to ``end`` as ``progress`` goes from 0 to 1."""
    return start + (end - start) * min(max(progress, 0.0), 1.0)


class Learner(ABC):
    """An algorithm and its policy."""

    learns_from: Literal["mini-episodes", "levels", "world"] = "mini-episodes"
    """What an update is given: played mini-episodes (`Batch`), levels with their outcome in closed form
    (`ExactBatch`), or nothing but the number of mini-episodes to play in a world of its own."""
    needs_critic = False
    reward: Any = None
    """λ, E and whether coins are divided by m, as they are now; set by whoever trains."""

    def __init__(self, policy: Any, critic: Critic | None, config: Any, generator: torch.Generator) -> None:
        self.policy, self.critic, self.config, self.generator = policy, critic, config, generator
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

    def __init__(self, policy: Policy, critic: Critic | None, config: Any, generator: torch.Generator) -> None:
        super().__init__(policy, critic, config, generator)
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
        """One optimiser step; returns the gradient's norm before clipping."""
        self.networks.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.networks.parameters(), self.config.max_grad_norm)
        for optimizer in self.optimizers.values():
            optimizer.step()
        return norm


def _is_wide(parameter: Tensor) -> bool:
    return parameter.ndim == 2 and min(parameter.shape) >= WIDE


class SampledLearner(NetworkLearner):
    """Policy gradient on batches of played mini-episodes; a subclass says what is climbed."""

    epochs = 1

    def advantages(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """[N] advantages, and the values [N] that the critic is to learn, if there is one."""
        assert self.critic is not None
        with torch.no_grad():
            value = Part.whole(batch).value(self.critic)
        return estimate(batch, value, self.config.gae_lambda, self.config.credit)

    def objective(self, log_prob: Tensor, log_prob_then: Tensor, advantage: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """[n] what each step adds to the objective, and metrics."""
        return log_prob * advantage, {}

    def update(self, batch: Batch) -> dict[str, Tensor]:
        advantage, target = self.advantages(batch)
        metrics = {} if target is None else {"critic/explained_variance": _explained(target - advantage, target)}
        if self.config.normalise_advantage:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        seen = [
            self._step(part, batch, advantage, target)
            for _ in range(self.epochs)
            for part in minibatches(batch, self.config.minibatches, self.generator)
        ]
        return metrics | {name: torch.stack([each[name] for each in seen]).mean() for name in seen[0]}

    def _step(self, part: Part, batch: Batch, advantage: Tensor, target: Tensor | None) -> dict[str, Tensor]:
        log_prob, entropy = part.evaluate(self.policy)
        gained, metrics = self.objective(log_prob, batch.log_prob[part.steps], advantage[part.steps])
        objective, entropy = gained.mean(), entropy.mean()
        loss = -objective - self.entropy_coeff * entropy
        if self.critic is not None and target is not None:
            critic_loss = 0.5 * (part.value(self.critic) - target[part.steps]).square().mean()
            loss = loss + self.config.critic_coeff * critic_loss
            metrics["loss/critic"] = critic_loss.detach()
        norm = self.descend(loss)
        return metrics | {
            "loss/objective": objective.detach(),
            "policy/entropy": entropy.detach(),
            "optim/grad_norm": norm,
        }


class Part:
    """Some of the steps of a batch, with the distinct observations they were taken at."""

    def __init__(self, batch: Batch, steps: Tensor) -> None:
        self.steps = steps
        met = torch.zeros(len(batch.observation), dtype=torch.bool, device=steps.device)
        met[batch.seen[steps]] = True
        self.observation = batch.observation[met]
        self.noise = None if batch.noise is None else batch.noise[met]
        self.seen = (met.cumsum(0) - 1)[batch.seen[steps]]
        self.action = batch.action[steps]
        self.context = None if batch.context.shape[1] == 0 else batch.context[batch.episode[steps]]

    @classmethod
    def whole(cls, batch: Batch) -> Part:
        return cls(batch, torch.arange(batch.steps, device=batch.seen.device))

    def evaluate(self, policy: Policy) -> tuple[Tensor, Tensor]:
        """Log-probability of each step's action, and the policy's entropy there, both [n]."""
        log_probs = policy(self.observation, self.noise).log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        flat = self.seen * log_probs.shape[-1] + self.action
        return log_probs.reshape(-1)[flat], entropy[self.seen]

    def value(self, critic: Critic) -> Tensor:
        """The critic's value of each step's state [n]."""
        if self.context is None:
            return critic(self.observation, self.noise)[self.seen]
        noise = None if self.noise is None else self.noise[self.seen]
        return critic(self.observation[self.seen], noise, self.context)


def minibatches(batch: Batch, count: int, generator: torch.Generator) -> Iterator[Part]:
    """Split a batch by its groups into ``count`` random parts."""
    order = torch.randperm(batch.num_groups, generator=generator, device=generator.device)
    part_of_group = torch.empty_like(order)
    part_of_group[order] = torch.arange(batch.num_groups, device=order.device) * count // batch.num_groups
    part = part_of_group[batch.step_group()]
    for index in range(count):
        if len(steps := (part == index).nonzero().squeeze(-1)):
            yield Part(batch, steps)


def _explained(value: Tensor, target: Tensor) -> Tensor:
    """1 − Var(target − value) / Var(target)."""
    return 1 - (target - value).var() / target.var().clamp_min(1e-8)
