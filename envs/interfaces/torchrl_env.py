"""A batched TorchRL environment of the worlds, in which step < mini-episode < meta-episode.

Every slot of the batch plays on a level of the set. When a mini-episode ends, the next one begins within the same step
(a soft reset). The environment's ``done`` is the end of a meta-episode of E mini-episodes, after which the slot samples
a new level. The reward is the value of the coin: `drest_torch.DReSTReward` computes the paper's reward from it and from
the plain keys ``mini_done``, ``mini_len``, ``num_lengths`` and ``best_return``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Categorical, Composite, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from drest_torch.envs import counter_rng as streams
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import Optima, solve
from drest_torch.envs.interfaces.slots import Slots, StepResult
from drest_torch.envs.levels import Level

STATE = "state"


class GridworldEnv(EnvBase):
    """A batch of slots on a level set.

    Args:
        levels: the set, as levels or already compiled.
        num_slots: the number of slots of the batch.
        episodes_per_meta: E, the number of mini-episodes of a meta-episode.
        gamma: the discount per tick for which ``best_return`` is m(l).
        observation: a name in `drest_torch.envs.dynamics.observations.OBSERVATIONS`, or ``state``, for the number of
            the state (`Mdp.states`) under the key ``state`` in place of an observation.
        group: the number of neighbouring slots that play the same levels in the same order.
        together: whether slots wait at the end of their meta-episode until all slots have finished theirs.
        optima: the solution of the levels; None: compute it.
        seed: the seed of levels and luck.

    ``reset(level=index)`` sets the level of each slot [B] instead of sampling it.
    """

    batch_locked = True
    zero_best = True
    """True because m can be 0 although coins were collected: a lottery with a negative mean can be won."""

    def __init__(
        self,
        levels: Mdp | Sequence[Level],
        num_slots: int,
        *,
        episodes_per_meta: int = 64,
        gamma: float = 1.0,
        observation: str = "grid",
        group: int = 1,
        together: bool = False,
        optima: Optima | None = None,
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> None:
        if num_slots < 1 or episodes_per_meta < 1:
            raise ValueError(f"{num_slots} slots, {episodes_per_meta} mini-episodes; expected at least 1 of each")
        if num_slots % group:
            raise ValueError(f"{num_slots} slots cannot be grouped by {group}; expected a group size that divides them")
        mdp = levels if isinstance(levels, Mdp) else compile_levels(levels)
        mdp = mdp.to(device)
        super().__init__(device=mdp.device, batch_size=torch.Size([num_slots]))
        self.episodes_per_meta = episodes_per_meta
        self.observe = None if observation == STATE else make_observation(observation, mdp)
        self._group, self._together, self._seed = group, together, seed
        self._fixed: Tensor | None = None
        self._over = False
        self._slots = Slots(mdp, optima or solve(mdp, gamma), num_slots)
        self.limit(num_slots, episodes_per_meta)
        self._make_specs(num_slots)
        self._set_seed(seed)

    def set_levels(self, mdp: Mdp, optima: Optima) -> None:
        """Set the level set and its solution from the next reset of all slots on.

        The specs remain those of the first set.
        """
        self._slots.set_levels(mdp, optima)

    @property
    def mdp(self) -> Mdp:
        """The level set."""
        return self._slots.mdp

    @property
    def optima(self) -> Optima:
        """The solution of the level set."""
        return self._slots.optima

    def play_on(self, level: Tensor) -> None:
        """Fix the levels [B] of the slots after each reset, instead of sampling them."""
        self._fixed = level.to(self.mdp.device)

    def _make_specs(self, slots: int) -> None:
        count = self.optima.lengths.shape[1]

        def column(numbers: int) -> Categorical:
            return Categorical(numbers, shape=(slots, 1), dtype=torch.int64)

        if self.observe is None:
            observed: dict[str, TensorSpec] = {STATE: Unbounded((slots,), dtype=torch.int64)}
        else:
            observed = {"observation": Unbounded((slots, *self.observe.shape))}
        self.observation_spec = Composite(
            **observed,
            mini_done=Binary(shape=(slots, 1), dtype=torch.bool),
            mini_len=column(count),
            mini_idx=column(self.episodes_per_meta + 1),
            tick=column(self.mdp.max_time + 1),
            num_lengths=column(count + 1),
            best_return=Unbounded((slots, 1)),
            shape=(slots,),
        )
        self.action_spec = Categorical(NUM_ACTIONS, shape=(slots,), dtype=torch.int64)
        self.reward_spec = Unbounded((slots, 1))

    def limit(self, slots: int, rounds: int) -> None:
        """Let only the first ``slots`` play, each for ``rounds`` mini-episodes, from the next reset of all slots on."""
        self.playing = slots
        """The number of slots that play; the others wait."""
        place = torch.arange(self.batch_size[0], device=self.mdp.device)
        self._quota = (place < slots) * rounds  # [B] the mini-episodes of each slot's meta-episode

    # ------------------------------------------------------------------------------ TorchRL's contract

    def _set_seed(self, seed: int | None) -> None:
        """Seed the random streams of every slot, and start its mini-episode."""
        self._seed = 0 if seed is None else seed
        slot = torch.arange(self.batch_size[0], device=self.mdp.device)
        self._mini_idx = zero = torch.zeros_like(slot)
        run = torch.full_like(slot, self._seed)
        level_key = streams.mix(streams.mix(run, zero), slot // self._group)
        self._slots.seed(level_key, streams.mix(streams.mix(run, zero + 1), slot), slot)
        self._slots.start(zero, zero == 0)

    def _reset(
        self, tensordict: TensorDictBase | None = None, level: Tensor | None = None, **kwargs: Any
    ) -> TensorDictBase:
        reset = None if tensordict is None else tensordict.get("_reset", None)
        slots = self._slots
        reset = torch.ones_like(slots.metas, dtype=torch.bool) if reset is None else reset.reshape(-1)
        if level is None:
            level = self._fixed
        if level is None and self.mdp.num_levels == 1:
            level = torch.zeros_like(slots.metas)
        elif level is None:
            level = slots.sample_levels(self._group if self._together else None)
        slots.start(level.to(self.mdp.device), reset)
        slots.metas = slots.metas + reset
        self._mini_idx = self._mini_idx * ~reset
        zero = torch.zeros_like(self._mini_idx)
        return self._frame(torch.zeros_like(reset), zero, zero.float(), torch.zeros_like(reset))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        slots = self._slots
        played = slots.step(tensordict.get("action"))
        column, best_return = slots.look_up(played.length)
        if self._together:  # waiting slots are stepped without effect
            plays = self._mini_idx < self._quota
            played = StepResult(played.coin * plays, played.mini_done & plays, played.length)
        self._mini_idx = self._mini_idx + played.mini_done
        meta_done = self._mini_idx == self._quota
        if self._together:
            self._over = bool(meta_done.all())
            meta_done = torch.full_like(meta_done, self._over)
        return self._frame(played.mini_done, column, best_return, meta_done, reward=played.coin)

    def _frame(
        self, mini_done: Tensor, mini_len: Tensor, best_return: Tensor, done: Tensor, **further: Tensor
    ) -> TensorDictBase:
        """Return the tensordict of a step or a reset, from these entries [B]."""
        slots = self._slots
        entries = {
            "mini_done": mini_done,
            "mini_len": mini_len,
            "mini_idx": self._mini_idx,
            "tick": slots.now.ticks,
            "num_lengths": slots.num_lengths,
            "best_return": best_return,
            "done": done,
            "terminated": done.clone(),
            **further,
        }
        columns = {name: value.unsqueeze(-1) for name, value in entries.items()}
        return TensorDict(self._observation() | columns, batch_size=self.batch_size, device=self.device)

    def _observation(self) -> dict[str, Tensor]:
        slots = self._slots.now
        if self.observe is None:
            number = self.mdp.states.number(slots.spot, slots.taken, slots.time_left)
            # Waiting slots share one state number, so that a tabular policy evaluates one state for all of them.
            return {STATE: number * (self._mini_idx < self._quota) if self._together else number}
        return {"observation": self.observe(slots.spot, slots.taken, slots.time_left)}

    def collection_stopped(self) -> bool:
        """Return whether all slots have finished their meta-episode, for collectors of whole meta-episodes."""
        return self._over

    # ------------------------------------------------------------------------------------ saved runs

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Return the mutable state, from which an environment with the same arguments continues bit for bit."""
        return self._slots.state_dict() | {"mini_idx": self._mini_idx}

    def load_state_dict(self, state: dict[str, Tensor], *args: Any, **kwargs: Any) -> None:
        """Restore a state of `state_dict`."""
        for name, value in state.items():
            if value.shape != self._mini_idx.shape:
                raise ValueError(f"{name} of {tuple(value.shape)} slots; expected {tuple(self._mini_idx.shape)}")
        state = {name: value.to(self.mdp.device).clone() for name, value in state.items()}
        self._mini_idx = state["mini_idx"]
        self._slots.load_state_dict(state)
