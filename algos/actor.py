"""TorchRL modules around networks: `Once`, which evaluates each distinct state once, and an actor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data import Unbounded
from torchrl.envs import InitTracker, TensorDictPrimer, Transform
from torchrl.envs.utils import ExplorationType, exploration_type
from torchrl.modules import ProbabilisticActor

from drest_torch.algos.distributions import ActionKind
from drest_torch.algos.networks.base import rows_of
from drest_torch.algos.networks.policy import memory_of, number_of, settings_of
from drest_torch.algos.networks.precision import computing, padded_rows, widened

STATE, ROW = "state", "row"
"""The keys of a state's number and of its row in an `ObservationTable`."""
PRIVATE = "private_bits"
"""The key of the private bits of a mini-episode."""
COUNTS = "drest_log_discounts"
"""The key of a critic's input about the meta-episode: the log of the discount that each length would get."""
INIT, MEMORY = "is_init", "memory"
"""The keys of the first steps of sequences, and of a recurrent policy's memory before a step."""


class StateView:
    """Observations of states that an environment identifies by number: one for each distinct state of some steps.

    ``observe`` returns the observations [u, …] of states with these numbers [u].
    """

    key = STATE

    def __init__(self, observe: Callable[[Tensor], Tensor] | None = None) -> None:
        self.observe: Any = observe
        self.are_rounded = False
        """True if observations are stored in bfloat16, for networks that round them before any other operation."""
        self.records: list[DistinctInputs] | None = None
        """The inputs at each step of a training batch; None: they are not recorded."""

    def record(self) -> None:
        """Record inputs from now on, for an `ObservationTable`."""
        self.records = []

    def distinct(self, state: Tensor, private: Tensor | None, precision: torch.dtype) -> DistinctInputs:
        """Return the distinct inputs of steps with these states [n] and private bits [n, bits]."""
        bits = 0 if private is None else private.shape[-1]
        number = state if private is None else (state << bits) | number_of(private)
        number, index = torch.unique(number, return_inverse=True)
        number = padded_rows(number, precision)
        setting = None if private is None else settings_of(number & ((1 << bits) - 1), bits)
        observation = self.observe(number >> bits)
        if self.are_rounded:
            observation = observation.to(precision)
        inputs = DistinctInputs(observation, setting, index)
        if self.records is not None:
            self.records.append(inputs)
        return inputs


class ObservationTable:
    """The observations of a batch, which training looks up by row instead of computing them again.

    An actor and a critic share the table, so the distinct rows of the same steps are computed once.
    """

    key = ROW

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Delete the observations."""
        self.table: DistinctInputs | None = None
        self._last: tuple[Tensor, DistinctInputs] | None = None

    def fill(self, view: StateView, batch: TensorDictBase) -> None:
        """Move a view's records of a batch [slots, time] into the table; write the row of each step to the batch."""
        records, view.records = view.records, None
        assert records is not None
        sizes = torch.tensor([0, *(len(inputs.observation) for inputs in records)])
        first = sizes.cumsum(0)[:-1]  # [time]
        index = torch.stack([inputs.index for inputs in records], 1)[: len(batch)]  # [slots, time]
        settings = [inputs.private for inputs in records if inputs.private is not None]
        observation = torch.cat([inputs.observation for inputs in records])
        every_row = torch.arange(len(observation), device=observation.device)
        private = None
        if settings:
            private = torch.cat(settings)
        self.clear()
        self.table = DistinctInputs(observation, private, every_row)
        batch.set(ROW, index + first.to(index.device))

    def distinct(self, row: Tensor, private: Tensor | None, precision: torch.dtype) -> DistinctInputs:
        """Return the distinct inputs of steps with these rows [n]; the rows include the private bits."""
        assert self.table is not None
        if self._last is None or self._last[0] is not row:
            self._last = row, self.table.part(row, precision)
        return self._last[1]


@dataclass(frozen=True)
class DistinctInputs:
    """The distinct inputs of n steps."""

    observation: Tensor
    """[u, …] observations"""
    private: Tensor | None
    """[u, bits] private bits"""
    index: Tensor
    """[n] the row of each step"""

    def part(self, row: Tensor, precision: torch.dtype) -> DistinctInputs:
        """Return the distinct inputs of the steps with these rows [m]."""
        used = torch.zeros(len(self.observation), dtype=torch.bool, device=row.device).index_fill_(0, row, True)
        rows = used.nonzero().squeeze(-1)
        if len(rows) == len(used):
            return DistinctInputs(self.observation, self.private, row)
        place = used.cumsum(0) - 1
        rows = padded_rows(rows, precision)
        observation = self.observation.index_select(0, rows)
        private = None if self.private is None else self.private.index_select(0, rows)
        return DistinctInputs(observation, private, place.index_select(0, row))


class Once(TensorDictModuleBase):
    """A policy or a critic as a TorchRL module that runs its network once for each distinct state of a batch.

    Many steps of a batch share a state, above all if many slots play on few levels. An environment therefore shows the
    number of its state. This module gets the observations of the distinct states from a ``view``, runs the network on
    them, and copies the outputs to the steps of each state. Steps with different private bits count as different.
    Without a view, ``sees`` is the key of observations, and the network runs on every step.

    A policy ``acts``: its outputs are normalised once for each state. With ``has_bits`` it reads private bits; only a
    critic reads counts. The network computes in a ``precision``; the outputs are float32.
    """

    def __init__(
        self,
        network: Callable[..., Tensor],
        sees: str,
        view: StateView | ObservationTable | None = None,
        *,
        has_bits: bool = False,
        counts: bool = False,
        acts: bool = False,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.network: Any = network
        self.sees = sees if view is None else view.key
        self.view, self.has_bits, self.counts, self.acts = view, has_bits, counts, acts
        self.precision = precision
        keys = {PRIVATE: has_bits, COUNTS: counts}
        self.in_keys: list[NestedKey] = [self.sees, *(key for key, is_read in keys.items() if is_read)]
        self.out_keys: list[NestedKey] = ["outputs" if acts else "state_value"]

    slots_together: int | None = None
    """The number of slots whose steps stay in one minibatch; None: steps can be split in any way."""

    def transforms(self) -> list[Transform]:
        """Return the transforms that an environment needs to provide the inputs."""
        return []

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the outputs [n, …] of a policy, and its memory, or the values [n, 1] of a critic."""
        outputs, *memory = self.read(tensordict)
        tensordict.set(self.out_keys[0], outputs if self.acts else outputs.unsqueeze(-1))
        for key, after in zip(self.out_keys[1:], memory, strict=False):
            tensordict.set(key, after)
        return tensordict

    def read(self, steps: TensorDictBase) -> tuple[Tensor, ...]:
        """Return the outputs for steps [n] and, for a network with a memory, the memory after them."""
        return (self.rows(steps),)

    def rows(self, steps: TensorDictBase) -> Tensor:
        """Return the outputs of the network for each step [n, …]."""
        observed = steps.get(self.sees)
        private = steps.get(PRIVATE) if self.has_bits else None
        context = [steps.get(COUNTS)] if self.counts else []
        if self.view is None:
            return self.compute(observed, private, *context)
        distinct = self.view.distinct(observed, private, self.precision)
        if context:
            return self.compute(distinct.observation, distinct.private, *context, distinct.index)
        values = self.compute(distinct.observation, distinct.private)
        return rows_of(self.finished(values), distinct.index)

    def compute(self, observation: Tensor, *others: Tensor | None) -> Tensor:
        """Return the outputs of the network for observations, computed in its precision, as float32."""
        with computing(self.precision, observation.device):
            values: Tensor = self.network(observation, *others)
        return widened(values)

    def finished(self, values: Tensor) -> Tensor:
        """Return the outputs of the network, normalised for a policy."""
        return values.log_softmax(-1) if self.acts else values


class RecurrentOnce(Once):
    """A policy or a critic with a memory, which it updates at each step.

    During collection each slot has its own memory. In training the inputs are whole sequences of steps, without one.
    """

    slots_together = 1

    def __init__(self, network: Callable[..., Tensor], *others: Any, **how: Any) -> None:
        super().__init__(network, *others, **how)
        self.in_keys.append(INIT)
        if self.acts:
            self.in_keys.append(MEMORY)
            self.out_keys.append(("next", MEMORY))

    def transforms(self) -> list[Transform]:
        empty = TensorDictPrimer({MEMORY: Unbounded((1, memory_of(self.network)))}, expand_specs=True)
        return [InitTracker(), empty]

    def read(self, steps: TensorDictBase) -> tuple[Tensor, ...]:
        carried = [steps.get(MEMORY)] if self.acts else []
        read = self.rows(steps)
        with computing(self.precision, read.device):
            outputs, memory = self.network.recall(read, steps.get(INIT), *carried)
        outputs, memory = widened(outputs), widened(memory)
        if self.view is not None:
            outputs = super().finished(outputs)
        return outputs, memory

    def finished(self, values: Tensor) -> Tensor:
        """Return the encodings unchanged; `read` computes the outputs from them and the memory."""
        return values


class Actor(ProbabilisticActor):
    """A policy that samples actions, for TorchRL's losses and collectors.

    It is a faster `ProbabilisticActor`, which matters for environments with few slots. It stores its last distribution,
    so that a loss can add an entropy bonus.
    """

    def __init__(self, reads: Once, actions: ActionKind) -> None:
        super().__init__(
            reads,
            in_keys=["outputs"],
            out_keys=["action"],
            distribution_class=actions.distribution,
            distribution_kwargs=actions.arguments,
            return_log_prob=True,
        )
        self.select_out_keys("action", *self.log_prob_keys, *reads.out_keys[1:])
        self.reads, self.actions = reads, actions
        self.dist: Any = None

    def get_dist(self, tensordict: TensorDictBase, *args: Any, **kwargs: Any) -> Any:
        return self._look(tensordict)[0]

    def forward(self, tensordict: TensorDictBase, *args: Any, **kwargs: Any) -> TensorDictBase:
        """Sample an action, or choose the most likely one without exploration; write its log-probability too."""
        dist, *memory = self._look(tensordict)
        greedy = exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE)
        action = dist.deterministic_sample if greedy else dist.sample()
        tensordict.set("action", action)
        tensordict.set(self.log_prob_keys[0], dist.log_prob(action))
        for after in memory:
            tensordict.set(("next", MEMORY), after)
        return tensordict

    def _look(self, tensordict: TensorDictBase) -> tuple[Any, ...]:
        outputs, *memory = self.reads.read(tensordict)
        self.dist = self.actions.of(outputs)
        return self.dist, *memory
