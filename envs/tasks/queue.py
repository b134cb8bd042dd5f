"""A queue to be served: one server, three kinds of customers, and in each step the choice whom to serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch.nn.functional import one_hot
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase


@dataclass(frozen=True)
class Customers:
    """What the customers of each queue are like.

    In a step the server first serves one customer, then each who still waits leaves with a probability, and then one
    more may come, who is turned away from a full queue.
    """

    value: tuple[float, ...] = (5.0, 4.0, 3.0)
    """What serving one is worth."""
    arrives: tuple[float, ...] = (0.4, 0.4, 0.4)
    """The probability that one comes in a step."""
    leaves: tuple[float, ...] = (0.0, 0.3, 0.9)
    """The probability that one who waits leaves in a step."""
    room: int = 4
    """Customers of a queue, at most."""


class QueueEnv(EnvBase):
    """Slots with a server and its queues. It never ends: put a `ShutdownTimer` around it.

    The action is the queue that is served, and the reward the value of the customer who was, 0 if nobody waited there.
    The observation is the length of each queue, one-hot. All random numbers are from one generator.
    """

    batch_locked = True

    def __init__(self, copies: int | tuple[int, ...] = (), customers: Customers = Customers()) -> None:
        batch = torch.Size((copies,) if isinstance(copies, int) else copies)
        super().__init__(batch_size=batch)
        self.name = "queue"
        self.customers = customers
        self.queues = len(customers.value)
        self._value, self._arrives, self._leaves = (
            torch.tensor(numbers) for numbers in (customers.value, customers.arrives, customers.leaves)
        )
        self._rng = torch.Generator()
        self._waiting = torch.zeros(*batch, self.queues, dtype=torch.int64)
        self.observation_spec = Composite(
            observation=Unbounded((*batch, self.queues * (customers.room + 1))), shape=batch
        )
        self.action_spec = Categorical(self.queues, shape=batch, dtype=torch.int64)
        self.reward_spec = Unbounded((*batch, 1))
        self._set_seed(0)

    def _set_seed(self, seed: int | None) -> None:
        self._rng.manual_seed(0 if seed is None else seed)

    def _shown(self) -> TensorDict:
        observation = one_hot(self._waiting, self.customers.room + 1).float().flatten(-2)
        flag = torch.zeros(*self.batch_size, 1, dtype=torch.bool)
        return TensorDict(
            {"observation": observation, "done": flag, "terminated": flag.clone()}, batch_size=self.batch_size
        )

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Empty the queues."""
        chosen = None if tensordict is None else tensordict.get("_reset", None)
        begins = torch.ones_like(self._waiting[..., :1], dtype=torch.bool) if chosen is None else chosen
        self._waiting = torch.where(begins.reshape(*self.batch_size, 1), 0, self._waiting)
        return self._shown()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        served = one_hot(tensordict["action"], self.queues) * (self._waiting > 0)
        still = self._waiting - served
        luck = torch.rand(*still.shape, self.customers.room + 1, generator=self._rng)
        waits = torch.arange(self.customers.room) < still.unsqueeze(-1)
        stay = (waits & (luck[..., 1:] >= self._leaves.unsqueeze(-1))).sum(-1)
        self._waiting = (stay + (luck[..., 0] < self._arrives)).clamp_max(self.customers.room)
        reward = (served * self._value).sum(-1, keepdim=True)
        return self._shown().set("reward", reward)


def make(copies: int = 1) -> QueueEnv:
    """Return so many slots."""
    return QueueEnv(copies)
