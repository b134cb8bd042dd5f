"""An environment as a policy plays it, and TorchRL's collector, which collects whole meta-episodes of every slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import Compose, EnvBase, InitTracker, TensorDictPrimer, Transform
from torchrl.envs.utils import ExplorationType

from drest_torch.algos.actor import MEMORY, Actor, Once, StateView
from drest_torch.algos.distributions import ActionKind, one_of
from drest_torch.algos.networks.policy import memory_of
from drest_torch.errors import blaming
from drest_torch.transforms import BestReturn, DReSTReward, Flatten
from drest_torch.transforms.base import appended, set_seed, title
from drest_torch.transforms.on_batches import LogDiscounts

ENDLESS = 1_000_000
"""Steps after which a batch ends in any case."""


class Ends(Protocol):
    """What knows when all slots of an environment have played their meta-episode: `GridworldEnv` or `MetaEpisodes`."""

    def collection_stopped(self) -> bool:
        """Return whether the batch is complete; TorchRL's collector asks after each step."""


@dataclass
class Environment:
    """An environment with its transforms, how a policy sees it and acts in it, and how a batch of it is paid."""

    env: EnvBase
    ends: Ends
    sees: str
    """The key of what a policy sees."""
    actions: ActionKind
    num_lengths: int
    private_bits: int = 0
    drest: DReSTReward | None = None
    """The transform that pays, in the environment or on a batch."""
    postproc: Callable[[TensorDictBase], TensorDictBase] | None = None
    """What is done with a collected batch."""
    shows_counts: bool = False
    """Whether a critic may see the log of the discount that each length would get."""
    most_steps: int = ENDLESS
    group: int | None = None
    """The slots of a group, of which minibatches are made; None: steps of all slots are alike."""
    view: StateView | None = None
    """What policies see of states that are shown as numbers."""
    flatten: Flatten | None = None
    """What makes one row of numbers of an observation; None where states are shown as numbers."""
    best: BestReturn | None = None
    """None: the environment says m(l) itself."""
    lengths: Sequence[int] = ()
    """Their names in tables: steps with a timer, else their indices."""
    ask: float | None = None
    """The probability per step with which an untrained policy asks for a delay."""

    @property
    def critic_context(self) -> int:
        """The numbers of the meta-episode that a critic sees besides an observation."""
        return self.num_lengths if self.shows_counts else 0

    @property
    def best_returns(self) -> Tensor:
        """m(l) [levels, k] as it is known so far, 0 where no mini-episode had the length; 1 if the environment says it.

        It is always the same tensor, which training changes.
        """
        return torch.ones(1, self.num_lengths) if self.best is None else self.best.best

    def pay_by(self, drest: DReSTReward, *, shows_counts: bool, further: Sequence[Transform] = ()) -> None:
        """Pay for mini-episodes: in the environment where a slot plays a whole meta-episode, else for groups of slots.

        With ``shows_counts`` a critic sees the counts. What is ``further`` done with a batch follows.
        """
        self.drest, self.shows_counts = drest, shows_counts
        drest.warns_of_cuts = False  # a collector ends batches with meta-episodes, or gives up what does not end
        on_batches: list[Transform] = [drest]
        if drest.group == 1:
            on_batches = []
            self.env = appended(self.env, drest)
        on_batches += [*([LogDiscounts(drest)] if shows_counts else []), *further]
        self.postproc = Compose(*on_batches) if on_batches else None

    def actor(self, policy: Callable[..., Tensor]) -> Actor:
        """Return a policy as TorchRL's actor in this environment, which carries its memory if it has one."""
        actions = self.actions
        if memory := memory_of(policy):
            if MEMORY not in self.env.observation_spec:
                carried = TensorDictPrimer({MEMORY: Unbounded((1, memory))}, expand_specs=True)
                self.env = appended(self.env, InitTracker(), carried)
            actions = actions if self.view is None else one_of(actions.outputs)
        return Actor(self._once(policy, acts=True), actions)

    def uniform_actor(self) -> Actor:
        """Return an actor that acts at random, and asks for a delay in about half of the mini-episodes."""
        outputs = self.actions.offset(self.ask)
        return self.actor(lambda seen, *others: outputs.to(seen.device).expand(len(seen), -1))

    def value(self, critic: Callable[..., Tensor] | None) -> Once | None:
        """Return a critic as TorchRL's value network in this environment."""
        return None if critic is None else self._once(critic, counts=self.shows_counts)

    def collector(self, actor: Any, *, greedy: bool = False, learns: bool = False) -> MetaEpisodeCollector:
        """Return a collector of batches; those that are learnt from keep what was seen of their states."""
        return MetaEpisodeCollector(
            self.env,
            actor,
            self.ends,
            most_steps=lambda: self.most_steps,
            postproc=self.postproc,
            begin=self.view.begin if learns and self.view is not None else None,
            unread=[MEMORY, ("next", MEMORY)] if MEMORY in actor.in_keys else [],
            greedy=greedy,
        )

    def sees_as(self, other: Environment) -> None:
        """Standardise observations as another environment does, now and later."""
        assert self.flatten is not None
        assert other.flatten is not None
        self.flatten.centre, self.flatten.spread = other.flatten.centre, other.flatten.spread

    def _once(self, network: Callable[..., Tensor], **how: bool) -> Once:
        return Once(network, self.sees, self.view, has_bits=self.private_bits > 0, **how)


class MetaEpisodeCollector(Collector):
    """A collector whose batch [slots, time] is one whole meta-episode of every slot.

    The slots of the environment wait for one another (``together`` of `GridworldEnv` and `MetaEpisodes`). A batch
    begins with a reset of all slots, so nothing of one batch is needed for the next. All random numbers of a batch
    follow from a seed that is drawn from a generator (`collect`).

    ``most_steps`` limits the time of a batch, and is asked before each: another level set may take longer. A
    mini-episode that has not ended by then counts for nothing.
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
        self._final_rollout = None  # a collector that is stopped looks for it, also without buffers
        if unread:
            self._compact_next_keys = list(unread)  # the collector leaves these out of every step
        self._batches = iter(self)

    def shutdown(self, *args: Any, close_env: bool = False, **kwargs: Any) -> None:
        """End the collector. The environment stays open, for whoever made it to close."""
        super().shutdown(*args, close_env=close_env, **kwargs)

    def collect(self, rng: torch.Generator) -> TensorDictBase:
        """Return the next batch; the generator gives its seed."""
        seed = int(torch.randint(2**31, (), generator=rng, device=rng.device))
        set_seed(self.env, seed)
        self.frames_per_batch = self._most_steps()
        devices: list[Any] | None = [] if self.env.device in (None, torch.device("cpu")) else None
        with torch.random.fork_rng(devices=devices), blaming(title(self.env), wholly=False):
            torch.manual_seed(seed + 2**31)
            batch: TensorDictBase = next(self._batches)
        return batch
