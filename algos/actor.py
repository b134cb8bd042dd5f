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
from torchrl.envs.utils import ExplorationType, exploration_type
from torchrl.modules import ProbabilisticActor

from drest_torch.algos.distributions import ActionKind
from drest_torch.algos.networks.base import rows_of
from drest_torch.algos.networks.policy import memory_of, number_of, settings_of

PRIVATE = "private_bits"
"""The key of the private bits of a mini-episode."""
COUNTS = "drest_log_discounts"
"""The key of what a critic may see of the meta-episode: the log of the discount that each length would get."""
INIT, MEMORY = "is_init", "memory"
"""The keys of where sequences of steps begin, and of what a recurrent policy remembers before a step."""


class StateView:
    """What policies see of the states of a batch: the observation of each distinct state, by its number.

    ``observe`` returns the observations [u, …] of states with these numbers [u]. An actor and a critic share a view, so
    that the distinct states of the same steps are found once.

    From `begin` to `keep`, while a batch is collected, the view keeps what it has seen. From then to `forget` learning
    gives the rows of this in the place of states.
    """

    def __init__(self, observe: Callable[[Tensor], Tensor] | None = None) -> None:
        self.set(observe)

    def set(self, observe: Any) -> None:
        """Look at the states of another level set from now on."""
        self.observe = observe
        self.forget()

    def forget(self) -> None:
        """Keep nothing any more."""
        self._seen: list[Distinct] | None = None
        self._known: Distinct | None = None
        self._last: tuple[Tensor, Tensor | None, Distinct] | None = None

    def begin(self) -> None:
        """Keep what is seen from now on."""
        self.forget()
        self._seen = []

    def keep(self) -> Tensor:
        """End a batch; return the row of each step [slots, time], which `distinct` takes from now on."""
        assert self._seen is not None
        observation = torch.cat([found.observation for found in self._seen])
        settings = [found.private for found in self._seen if found.private is not None]
        first = torch.tensor([0, *(len(found.observation) for found in self._seen)]).cumsum(0)[:-1]
        row = torch.stack([found.index for found in self._seen], 1) + first.to(observation.device)
        self.forget()
        private = torch.cat(settings) if settings else None
        self._known = Distinct(observation, private, torch.arange(len(observation), device=observation.device))
        return row

    def distinct(self, state: Tensor, private: Tensor | None) -> Distinct:
        """Return the distinct inputs of steps with these states [n] and private bits [n, bits]."""
        if self._seen is not None:
            self._seen.append(self._look(state, private))
            return self._seen[-1]
        if self._last is None or self._last[0] is not state or self._last[1] is not private:
            self._last = state, private, self._look(state, private) if self._known is None else self._known.part(state)
        return self._last[2]

    def _look(self, state: Tensor, private: Tensor | None) -> Distinct:
        bits = 0 if private is None else private.shape[-1]
        key = state if private is None else (state << bits) | number_of(private)
        key, index = torch.unique(key, return_inverse=True)
        setting = None if private is None else settings_of(key & ((1 << bits) - 1), bits)
        return Distinct(self.observe(key >> bits), setting, index)


@dataclass(frozen=True)
class Distinct:
    """The distinct inputs of n steps."""

    observation: Tensor
    """[u, …]"""
    private: Tensor | None
    """[u, bits]"""
    index: Tensor
    """[n] which of them each step has"""

    def part(self, row: Tensor) -> Distinct:
        """Return the distinct inputs of some of the steps, which have these rows [m] of all."""
        used = torch.zeros(len(self.observation), dtype=torch.bool, device=row.device).index_fill_(0, row, True)
        rows = used.nonzero().squeeze(-1)
        if len(rows) == len(used):
            return Distinct(self.observation, self.private, row)
        place = used.cumsum(0) - 1
        private = None if self.private is None else self.private.index_select(0, rows)
        return Distinct(self.observation.index_select(0, rows), private, place.index_select(0, row))


class Once(TensorDictModuleBase):
    """A policy or a critic as TorchRL's modules are: it runs its network once for each distinct state of a batch.

    Many steps of a batch are taken in the same state, above all where many slots play on few levels. An environment
    therefore shows the number of its state. This module makes the observations of the distinct numbers (``view``), runs
    the network on those, and hands each row back to the steps of its state. Private bits are part of what is distinct.
    Without a view, ``sees`` is the key of observations, and each step has its own row.

    A policy ``acts``: its outputs are normalised once for each state. ``has_bits`` says whether it sees private bits;
    only a critic sees counts. A network with a memory goes on from it with what it reads of each step. While a batch is
    collected the memory is that of each slot. Learning gives whole sequences of steps and no memory.
    """

    def __init__(
        self,
        network: Callable[..., Tensor],
        sees: str,
        view: StateView | None = None,
        *,
        has_bits: bool = False,
        counts: bool = False,
        acts: bool = False,
    ) -> None:
        super().__init__()
        self.network: Any = network
        self.sees, self.view, self.has_bits, self.counts, self.acts = sees, view, has_bits, counts, acts
        self.remembers = memory_of(network) > 0
        keys = {PRIVATE: has_bits, COUNTS: counts, INIT: self.remembers, MEMORY: self.remembers and acts}
        self.in_keys = [sees, *(key for key, is_read in keys.items() if is_read)]
        self.out_keys: list[NestedKey] = ["outputs" if acts else "state_value"]
        if self.remembers and acts:
            self.out_keys.append(("next", MEMORY))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the outputs [n, …] of a policy, and its memory, or the values [n, 1] of a critic."""
        outputs, *memory = self.read(tensordict)
        tensordict.set(self.out_keys[0], outputs if self.acts else outputs.unsqueeze(-1))
        for key, after in zip(self.out_keys[1:], memory, strict=False):
            tensordict.set(key, after)
        return tensordict

    def read(self, steps: TensorDictBase) -> tuple[Tensor, ...]:
        """Return the outputs for steps [n], and, of a network with a memory, the memory after them."""
        outputs = self._once(steps)
        if not self.remembers:
            return (outputs,)
        carried = [steps.get(MEMORY)] if self.acts else []
        return self.network.recall(outputs, steps.get(INIT), *carried)

    def _once(self, steps: TensorDictBase) -> Tensor:
        seen = steps.get(self.sees)
        private = steps.get(PRIVATE) if self.has_bits else None
        context = [steps.get(COUNTS)] if self.counts else []
        if self.view is None:
            return self.network(seen, private, *context)
        found = self.view.distinct(seen, private)
        if context:
            return self.network(found.observation, found.private, *context, found.index)
        values = self.network(found.observation, found.private)
        if self.acts and not self.remembers:
            values = values.log_softmax(-1)
        return rows_of(values, found.index)


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
        self.actions = actions
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
        outputs, *memory = self.module[0].read(tensordict)
        self.dist = self.actions.of(outputs)
        return self.dist, *memory
