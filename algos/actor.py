"""Networks as modules of TorchRL: `Once`, which looks each distinct state up once, and an actor."""

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
from drest_torch.algos.networks.precision import computing, filled_up, widened

STATE, ROW = "state", "row"
"""The keys of the number of a state, and of its row in `SeenStates`."""
PRIVATE = "private_bits"
"""The key of the private bits of a mini-episode."""
COUNTS = "drest_log_discounts"
"""The key of what a critic may see of the meta-episode: the log of the discount that each length would get."""
INIT, MEMORY = "is_init", "memory"
"""The keys of where sequences of steps begin, and of what a recurrent policy remembers before a step."""


class StateView:
    """The observations of states that an environment shows as numbers: one for each distinct state of some steps.

    ``observe`` returns the observations [u, …] of states with these numbers [u].
    """

    key = STATE

    def __init__(self, observe: Callable[[Tensor], Tensor] | None = None) -> None:
        self.observe: Any = observe
        self.are_rounded = False
        """Whether they are rounded for networks that compute in bfloat16, which round them first of all."""
        self.records: list[Distinct] | None = None
        """What was seen in each step of a batch that is collected to learn from; None: it is not kept."""

    def record(self) -> None:
        """Keep what is seen from now on, for `SeenStates`."""
        self.records = []

    def distinct(self, state: Tensor, private: Tensor | None, precision: torch.dtype) -> Distinct:
        """Return the distinct inputs of steps with these states [n] and private bits [n, bits], for this precision."""
        bits = 0 if private is None else private.shape[-1]
        number = state if private is None else (state << bits) | number_of(private)
        number, index = torch.unique(number, return_inverse=True)
        number = filled_up(number, precision)
        setting = None if private is None else settings_of(number & ((1 << bits) - 1), bits)
        observation = self.observe(number >> bits)
        if self.are_rounded:
            observation = observation.to(precision)
        found = Distinct(observation, setting, index)
        if self.records is not None:
            self.records.append(found)
        return found


class SeenStates:
    """What a batch has shown, as a table: learning looks observations up by their row, and makes none.

    An actor and a critic share it, so that the distinct rows of the same steps are found once.
    """

    key = ROW

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Keep nothing any more."""
        self.table: Distinct | None = None
        self._last: tuple[Tensor, Distinct] | None = None

    def fill(self, view: StateView, batch: TensorDictBase) -> None:
        """Take what a view has recorded while a batch [slots, time] was collected; add the row of each step to it."""
        records, view.records = view.records, None
        assert records is not None
        sizes = torch.tensor([0, *(len(seen.observation) for seen in records)])
        first = sizes.cumsum(0)[:-1]  # [time]
        index = torch.stack([seen.index for seen in records], 1)  # [slots, time]
        settings = [seen.private for seen in records if seen.private is not None]
        observation = torch.cat([seen.observation for seen in records])
        every_row = torch.arange(len(observation), device=observation.device)
        self.clear()
        self.table = Distinct(observation, torch.cat(settings) if settings else None, every_row)
        batch.set(ROW, index + first.to(index.device))

    def distinct(self, row: Tensor, private: Tensor | None, precision: torch.dtype) -> Distinct:
        """Return the distinct inputs of steps with these rows [n], which hold the private bits too."""
        assert self.table is not None
        if self._last is None or self._last[0] is not row:
            self._last = row, self.table.part(row, precision)
        return self._last[1]


@dataclass(frozen=True)
class Distinct:
    """The distinct inputs of n steps."""

    observation: Tensor
    """[u, …]"""
    private: Tensor | None
    """[u, bits]"""
    index: Tensor
    """[n] which of them each step has"""

    def part(self, row: Tensor, precision: torch.dtype) -> Distinct:
        """Return the distinct inputs of some of the steps, which have these rows [m] of all, for this precision."""
        used = torch.zeros(len(self.observation), dtype=torch.bool, device=row.device).index_fill_(0, row, True)
        rows = used.nonzero().squeeze(-1)
        if len(rows) == len(used):
            return Distinct(self.observation, self.private, row)
        place = used.cumsum(0) - 1
        rows = filled_up(rows, precision)
        private = None if self.private is None else self.private.index_select(0, rows)
        return Distinct(self.observation.index_select(0, rows), private, place.index_select(0, row))


class Once(TensorDictModuleBase):
    """A policy or a critic as TorchRL's modules are: it runs its network once for each distinct state of a batch.

    Many steps of a batch are taken in the same state, above all where many slots play on few levels. An environment
    therefore shows the number of its state. This module gets the observations of the distinct states from a ``view``,
    runs the network on those, and hands each row back to the steps of its state. Private bits are part of what is
    distinct. Without a view, ``sees`` is the key of observations, and each step has its own row.

    A policy ``acts``: its outputs are normalised once for each state. ``has_bits`` says whether it sees private bits;
    only a critic sees counts. The network computes in a ``precision``; what it returns is float32.
    """

    def __init__(
        self,
        network: Callable[..., Tensor],
        sees: str,
        view: StateView | SeenStates | None = None,
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
    """The slots whose steps are not parted in minibatches; None: any steps can be."""

    def transforms(self) -> list[Transform]:
        """Return the transforms without which an environment does not show what is read."""
        return []

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the outputs [n, …] of a policy, and its memory, or the values [n, 1] of a critic."""
        outputs, *memory = self.read(tensordict)
        tensordict.set(self.out_keys[0], outputs if self.acts else outputs.unsqueeze(-1))
        for key, after in zip(self.out_keys[1:], memory, strict=False):
            tensordict.set(key, after)
        return tensordict

    def read(self, steps: TensorDictBase) -> tuple[Tensor, ...]:
        """Return the outputs for steps [n], and, of a network with a memory, the memory after them."""
        return (self.rows(steps),)

    def rows(self, steps: TensorDictBase) -> Tensor:
        """Return what the network makes of each step [n, …]."""
        seen = steps.get(self.sees)
        private = steps.get(PRIVATE) if self.has_bits else None
        context = [steps.get(COUNTS)] if self.counts else []
        if self.view is None:
            return self.compute(seen, private, *context)
        distinct = self.view.distinct(seen, private, self.precision)
        if context:
            return self.compute(distinct.observation, distinct.private, *context, distinct.index)
        values = self.compute(distinct.observation, distinct.private)
        return rows_of(self.finished(values), distinct.index)

    def compute(self, observation: Tensor, *others: Tensor | None) -> Tensor:
        """Return what the network makes of observations in its precision, as float32."""
        with computing(self.precision, observation.device):
            values: Tensor = self.network(observation, *others)
        return widened(values)

    def finished(self, values: Tensor) -> Tensor:
        """Return the values of the network, of a policy normalised once for each state."""
        return values.log_softmax(-1) if self.acts else values


class RecurrentOnce(Once):
    """A policy or a critic with a memory: it goes on from it with what it reads of each step.

    While a batch is collected the memory is that of each slot. Learning gives whole sequences of steps and no memory.
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
        """Return what was read as it is: the outputs follow from it and the memory."""
        return values


class Actor(ProbabilisticActor):
    """A policy that samples actions, as TorchRL's losses and collectors take it.

    It does what `ProbabilisticActor` does in a fraction of the time, which matters for environments with few slots. It
    keeps its last distribution, so that a loss can add the entropy to another.
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
        """Sample an action, or choose the most likely one where exploration is off; write its log-probability too."""
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
