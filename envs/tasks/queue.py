"""A queueing task: one server, three queues of customers, and one queue to serve in each step."""

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
    """The parameters of the customers of each queue.

    In a step the server first serves one customer, then each waiting customer leaves with a probability, and then one
    customer may arrive, who is turned away from a full queue.
    """

    value: tuple[float, ...] = (5.0, 4.0, 3.0)
    """The reward for serving a customer."""
    arrives: tuple[float, ...] = (0.4, 0.4, 0.4)
    """The probability of an arrival in a step."""
    leaves: tuple[float, ...] = (0.0, 0.3, 0.9)
    """The probability that a waiting customer leaves in a step."""
    room: int = 4
    """The capacity of a queue."""


class QueueEnv(EnvBase):
    """Slots with a server and its queues. The environment never ends: wrap it in a `ShutdownTimer`.

    The action is the queue to serve, and the reward is the value of the served customer, 0 for an empty queue. The
    observation is the length of each queue, one-hot. All random numbers come from one generator.
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

    def _observation(self) -> TensorDict:
        observation = one_hot(self._waiting, self.customers.room + 1).float().flatten(-2)
        flag = torch.zeros(*self.batch_size, 1, dtype=torch.bool)
        return TensorDict(
            {"observation": observation, "done": flag, "terminated": flag.clone()}, batch_size=self.batch_size
        )

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Reset the queues to length 0."""
        begins = torch.ones_like(self._waiting[..., :1], dtype=torch.bool)
        if tensordict is not None:
            begins = tensordict.get("_reset", begins)
        self._waiting = torch.where(begins.reshape(*self.batch_size, 1), 0, self._waiting)
        return self._observation()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        served = one_hot(tensordict["action"], self.queues) * (self._waiting > 0)
        still = self._waiting - served
        luck = torch.rand(*still.shape, self.customers.room + 1, generator=self._rng)
        waits = torch.arange(self.customers.room) < still.unsqueeze(-1)
        stay = (waits & (luck[..., 1:] >= self._leaves.unsqueeze(-1))).sum(-1)
        self._waiting = (stay + (luck[..., 0] < self._arrives)).clamp_max(self.customers.room)
        reward = (served * self._value).sum(-1, keepdim=True)
        return self._observation().set("reward", reward)


def make(copies: int = 1) -> QueueEnv:
    """Return an environment with this number of slots."""
    return QueueEnv(copies)
