"""What the sampled algorithms share: a policy, a critic, one optimiser, and minibatches of whole groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from algos.advantages import estimate
from algos.batch import Batch
from algos.networks import Critic, Policy


def linear(start: float, end: float, progress: float) -> float:
    """A schedule: from ``start`` to ``end`` as ``progress`` goes from 0 to 1."""
    return start + (end - start) * min(max(progress, 0.0), 1.0)


class Learner:
    """Base of the algorithms: networks, optimiser and schedules; a subclass says how a batch is used."""

    def __init__(
        self, policy: Policy, critic: Critic | None, config: Any, generator: torch.Generator
    ) -> None:
        self.policy, self.critic, self.config, self.generator = policy, critic, config, generator
        self.networks = nn.ModuleList([policy] if critic is None else [policy, critic])
        self.optimizer = torch.optim.Adam(self.networks.parameters(), lr=config.lr, eps=config.adam_eps)

    def set_progress(self, progress: float) -> None:
        """Where in the run we are, from 0 to 1: sets the learning rate and the entropy bonus."""
        self.lr = linear(self.config.lr, self.config.lr_end, progress)
        self.entropy_coeff = linear(self.config.entropy, self.config.entropy_end, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr

    def descend(self, loss: Tensor) -> Tensor:
        """One optimiser step; returns the gradient's norm before clipping."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.networks.parameters(), self.config.max_grad_norm)
        self.optimizer.step()
        return norm

    def state_dict(self) -> dict[str, Any]:
        return {"networks": self.networks.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.networks.load_state_dict(state["networks"])
        self.optimizer.load_state_dict(state["optimizer"])


class Part:
    """Some of the groups of a batch: the distinct observations, and the steps taken in them."""

    def __init__(self, batch: Batch, distinct: Tensor, steps: Tensor) -> None:
        new_index = torch.empty(len(batch.observation), dtype=torch.int64, device=distinct.device)
        new_index[distinct] = torch.arange(len(distinct), device=distinct.device)
        self.steps = steps
        self.observation = batch.observation[distinct]
        self.noise = None if batch.noise is None else batch.noise[distinct]
        self.seen = new_index[batch.seen[steps]]
        self.action = batch.action[steps]
        self.context = None if batch.context.shape[1] == 0 else batch.context[batch.episode[steps]]

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


def whole(batch: Batch) -> Part:
    every = torch.arange(len(batch.observation), device=batch.seen.device)
    return Part(batch, every, torch.arange(batch.steps, device=batch.seen.device))


def minibatches(batch: Batch, count: int, generator: torch.Generator) -> Iterator[Part]:
    """Split a batch by its groups into ``count`` random parts."""
    if count == 1:
        yield whole(batch)
        return
    order = torch.randperm(batch.num_groups, generator=generator, device=generator.device)
    part_of_group = torch.empty_like(order)
    part_of_group[order] = torch.arange(batch.num_groups, device=order.device) * count // batch.num_groups
    part = part_of_group[batch.group]
    step_part = part[batch.seen]
    for index in range(count):
        yield Part(batch, (part == index).nonzero().squeeze(-1), (step_part == index).nonzero().squeeze(-1))


@torch.no_grad()
def advantages(batch: Batch, critic: Critic | None, lmbda: float, credit: str) -> tuple[Tensor, Tensor]:
    value = torch.zeros_like(batch.log_prob) if critic is None else whole(batch).value(critic)
    return estimate(batch, value, lmbda, credit)


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """1 − Var(target − value) / Var(target)."""
    return 1 - (target - value).var() / target.var().clamp_min(1e-8)
