"""An environment as policies see it, and a TorchRL collector of whole meta-episodes of every slot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.collectors import Collector
from torchrl.envs import Compose, EnvBase, Transform
from torchrl.envs.utils import ExplorationType

from drest_torch.algos.actor import MEMORY, Actor, ObservationTable, Once, RecurrentOnce, StateView
from drest_torch.algos.distributions import ActionKind
from drest_torch.algos.networks.policy import memory_of
from drest_torch.errors import blaming
from drest_torch.reward import Reward
from drest_torch.transforms import DReSTReward
from drest_torch.transforms.base import appended, set_seed, title
from drest_torch.transforms.on_batches import LogDiscounts, PlayingSlots

ENDLESS = 1_000_000
"""The largest number of steps of a batch."""
SHARE_LEFT, SHARE_PLAYED, SHARE_OF_REST = 1.25, 0.8, 0.25
"""If less than the first share of a whole batch is left of a budget, the second share of this is played. The rest is
played after it, or at once if it is less than the third share of a whole batch."""
LEAST_TURNS = 2
"""The smallest number of mini-episodes in a batch that is cut; the spread of a single advantage is undefined."""


class Ends(Protocol):
    """The meta-episodes of an environment's slots, and the signal of their end: `GridworldEnv` or `MetaEpisodes`."""

    playing: int | None
    """The number of slots that play; None: all."""

    def limit(self, slots: int, rounds: int) -> None:
        """Let only the first ``slots`` play, each for ``rounds`` mini-episodes, from the next reset of all slots on."""

    def collection_stopped(self) -> bool:
        """Return True if the batch is complete; TorchRL's collector calls this after each step."""


class MetaEpisodeCollector(Collector):
    """A collector whose batch [slots, time] is one whole meta-episode of every slot.

    The slots of the environment wait for one another (``together`` of `GridworldEnv` and `MetaEpisodes`). A batch
    begins with a reset of all slots, so batches do not depend on each other. All random numbers of a batch follow from
    a seed that `collect` draws from a generator.

    ``most_steps`` limits the time steps of a batch; it is called before each, as another level set may take longer. A
    mini-episode that has not ended by then is discarded.
    """

    def __init__(
        self,
        env: EnvBase,
        policy: Any,
        ends: Ends,
        *,
        most_steps: Callable[[], int] = lambda: ENDLESS,
        postproc: Any = None,
        begin: Callable[[], None] | None = None,
        unread: Sequence[NestedKey] = (),
        greedy: bool = False,
    ) -> None:
        super().__init__(
            env,
            policy,
            frames_per_batch=env.batch_size.numel() * most_steps(),
            total_frames=-1,
            reset_at_each_iter=True,
            track_traj_ids=False,
            return_same_td=True,
            use_buffers=False,
            auto_register_policy_transforms=False,
            exploration_type=ExplorationType.DETERMINISTIC if greedy else ExplorationType.RANDOM,
            interruptor=ends,
            postproc=postproc,
            pre_collect_hook=begin,
        )
        self._most_steps = most_steps
        self._final_rollout = None  # TorchRL's `shutdown` reads it, also without buffers
        if unread:
            self._compact_next_keys = list(unread)  # TorchRL's collector drops these from every step
        self._batches = iter(self)

    def shutdown(self, *args: Any, close_env: bool = False, **kwargs: Any) -> None:
        """End the collector and leave the environment open; its owner closes it."""
        super().shutdown(*args, close_env=close_env, **kwargs)

    def collect(self, rng: torch.Generator) -> TensorDictBase:
        """Return the next batch, with a seed from the generator."""
        seed = int(torch.randint(2**31, (), generator=rng, device=rng.device))
        set_seed(self.env, seed)
        self.frames_per_batch = self._most_steps()
        devices: list[Any] | None = [] if self.env.device in (None, torch.device("cpu")) else None
        with torch.random.fork_rng(devices=devices), blaming(title(self.env), wholly=False):
            torch.manual_seed(seed + 2**31)
            batch: TensorDictBase = next(self._batches)
        return batch


@dataclass
class Environment:
    """An environment with its transforms, its interface to policies, and the reward of its batches."""

    env: EnvBase
    ends: Ends
    sees: str
    """The key of a policy's observation."""
    actions: ActionKind
    num_lengths: int
    private_bits: int = 0
    group: int | None = None
    """The slots of a group, which minibatches do not split; None: minibatches are random steps of all slots."""
    view: StateView | None = None
    """The observations of states, for an environment that shows the numbers of states."""
    drest: DReSTReward | None = None
    """The transform that computes the reward of batches."""
    shows_counts: bool = False
    """True if a critic sees the log of the discount that each length would get."""
    postproc: Compose | None = None
    """The transforms of a collected batch."""
    most_steps: int = ENDLESS
    rounds: int = 1
    """The mini-episodes of a slot in a whole batch; 1 if the environment plays its own mini-episodes."""
    turns: int = 0
    """The turns of the last batch: a turn is a mini-episode of a slot, or its meta-episode if ``rounds`` is 1."""
    expected_turn: float = 0.0
    """An estimate of the steps of a turn before the first batch; 0: unknown."""

    @property
    def whole_batch(self) -> float:
        """An estimate of the steps of a whole batch before training; 0: unknown."""
        return self.env.batch_size.numel() * self.rounds * self.expected_turn

    def limit(self, steps: float, steps_per_turn: float) -> None:
        """Cut the next batch if about this many steps are left of the budget, and a whole batch could exceed them.

        The last steps are two batches, because the mean length of mini-episodes can change from one to the next: most
        of the steps, and the rest. A batch of several rounds is cut to fewer rounds of all slots, and other batches to
        fewer groups of slots. ``steps_per_turn`` is the mean of the last batch; 0: there is none yet.
        """
        assert self.drest is not None
        slots, rounds, group = self.env.batch_size.numel(), self.rounds, self.drest.group
        length = steps_per_turn or self.expected_turn
        share = steps / (slots * rounds * length or 1)  # of a whole batch
        if length and share < SHARE_LEFT and not math.isclose(share, 1):
            if share > SHARE_OF_REST:
                steps *= SHARE_PLAYED
            turns = max(LEAST_TURNS, math.ceil(steps / length))
            rounds = min(rounds, math.ceil(turns / slots))
            slots = min(slots, math.ceil(turns / group) * group)
        self.ends.limit(slots, rounds)
        self.turns = slots * rounds

    @property
    def critic_context(self) -> int:
        """The number of inputs of a critic about the meta-episode."""
        return self.num_lengths if self.shows_counts else 0

    # ------------------------------------------------------------------------------------ the reward of batches

    def pay_by(self, drest: DReSTReward, *, shows_counts: bool, further: Sequence[Transform] = ()) -> None:
        """Set the transform that computes the reward of batches, and ``further`` transforms to apply after it.

        With ``shows_counts`` a critic sees the counts.
        """
        drest.warns_of_cuts = False  # the collector discards incomplete mini-episodes on purpose
        self.drest, self.shows_counts = drest, shows_counts
        counts = [LogDiscounts(drest)] if shows_counts else []
        self.postproc = Compose(PlayingSlots(self.ends), drest, *counts, *further)

    def set_reward(self, reward: Reward) -> None:
        """Set the reward of the next batches."""
        assert self.drest is not None
        if reward != self.drest.reward:
            self.drest.set_reward(reward)

    # ------------------------------------------------------------------------------------ policies and critics

    def actor(
        self,
        policy: Callable[..., Tensor],
        table: ObservationTable | None = None,
        *,
        precision: torch.dtype = torch.float32,
    ) -> Actor:
        """Return a TorchRL actor for a policy in this environment, and give the environment a memory if it needs one.

        For training, the actor reads the observations of a batch from a ``table``, if states are shown as numbers.
        """
        reads = self._once(policy, table, acts=True, precision=precision)
        transforms = reads.transforms()
        if transforms and MEMORY not in self.env.observation_spec:
            self.env = appended(self.env, *transforms)
        return Actor(reads, self.actions)

    def uniform_actor(self) -> Actor:
        """Return a random policy's actor; it requests a delay, if it can, in about half of the mini-episodes."""
        outputs = self.untrained_outputs()
        return self.actor(lambda observed, *others: outputs.to(observed.device).expand(len(observed), -1))

    def untrained_outputs(self) -> Tensor:
        """Return the outputs of an untrained policy [A]."""
        return self.actions.offset(None)

    def value(
        self,
        critic: Callable[..., Tensor] | None,
        table: ObservationTable | None = None,
        *,
        precision: torch.dtype = torch.float32,
    ) -> Once | None:
        """Return a TorchRL value network for a critic in this environment, with the ``table`` of `actor`."""
        if critic is None:
            return None
        return self._once(critic, table, counts=self.shows_counts, precision=precision)

    def _once(self, network: Callable[..., Tensor], table: ObservationTable | None, **how: Any) -> Once:
        view: StateView | ObservationTable | None = self.view
        if view is not None and table is not None:
            view = table
        kind = RecurrentOnce if memory_of(network) else Once
        return kind(network, self.sees, view, has_bits=self.private_bits > 0, **how)

    def collector(self, actor: Any, *, greedy: bool = False, learns: bool = False) -> MetaEpisodeCollector:
        """Return a collector of batches; with ``learns`` their observations are recorded for training."""
        return MetaEpisodeCollector(
            self.env,
            actor,
            self.ends,
            most_steps=lambda: self.most_steps,
            postproc=self.postproc,
            begin=self.view.record if learns and self.view is not None else None,
            unread=[MEMORY, ("next", MEMORY)] if MEMORY in actor.in_keys else [],
            greedy=greedy,
        )

    # ------------------------------------------------------------------------------------ during training

    def renew_levels(self) -> None:
        """Sample the levels of the next batch, if they change."""

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the environment."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state that training changes; writing to these tensors restores it."""
        return {}
