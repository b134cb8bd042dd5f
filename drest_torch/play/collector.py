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
from torchrl.envs import Compose, EnvBase, Transform
from torchrl.envs.utils import ExplorationType

from drest_torch.algos.actor import MEMORY, Actor, Once, RecurrentOnce, SeenStates, StateView
from drest_torch.algos.distributions import ActionKind
from drest_torch.algos.networks.policy import memory_of
from drest_torch.errors import blaming
from drest_torch.reward import Reward
from drest_torch.transforms import DReSTReward
from drest_torch.transforms.base import appended, set_seed, title
from drest_torch.transforms.on_batches import LogDiscounts

ENDLESS = 1_000_000
"""Steps after which a batch ends in any case."""


class Ends(Protocol):
    """Signals that every slot of an environment has played its meta-episode: `GridworldEnv` or `MetaEpisodes`."""

    def collection_stopped(self) -> bool:
        """Return whether the batch is complete; TorchRL's collector asks after each step."""


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
    group: int | None = None
    """The slots of a group, of which minibatches are made; None: steps of all slots are alike."""
    view: StateView | None = None
    """What policies see of states that are shown as numbers."""
    drest: DReSTReward | None = None
    """The transform that pays for batches."""
    shows_counts: bool = False
    """Whether a critic sees the log of the discount that each length would get."""
    postproc: Compose | None = None
    """What is done with a collected batch."""
    most_steps: int = ENDLESS

    @property
    def critic_context(self) -> int:
        """The numbers of the meta-episode that a critic sees besides an observation."""
        return self.num_lengths if self.shows_counts else 0

    # ------------------------------------------------------------------------------------ what batches are paid

    def pay_by(self, drest: DReSTReward, *, shows_counts: bool, further: Sequence[Transform] = ()) -> None:
        """Pay for collected batches by this transform.

        With ``shows_counts`` a critic sees the counts. What is ``further`` done with a batch follows.
        """
        drest.warns_of_cuts = False  # a collector ends batches with meta-episodes, or gives up what does not end
        self.drest, self.shows_counts = drest, shows_counts
        shown = [LogDiscounts(drest)] if shows_counts else []
        self.postproc = Compose(drest, *shown, *further)

    def set_reward(self, reward: Reward) -> None:
        """Pay by this reward from the next batch on."""
        assert self.drest is not None
        if reward != self.drest.reward:
            self.drest.set_reward(reward)

    # ------------------------------------------------------------------------------------ who plays

    def actor(
        self,
        policy: Callable[..., Tensor],
        seen: SeenStates | None = None,
        *,
        precision: torch.dtype = torch.float32,
    ) -> Actor:
        """Return a policy as TorchRL's actor in this environment, which carries its memory if it has one.

        To learn it reads what a batch has ``seen``, if the environment shows the numbers of states.
        """
        reads = self._once(policy, seen, acts=True, precision=precision)
        transforms = reads.transforms()
        if transforms and MEMORY not in self.env.observation_spec:
            self.env = appended(self.env, *transforms)
        return Actor(reads, self.actions)

    def uniform_actor(self) -> Actor:
        """Return an actor that acts at random, and asks for a delay, if it can, in about half of the mini-episodes."""
        outputs = self.untrained_outputs()
        return self.actor(lambda seen, *others: outputs.to(seen.device).expand(len(seen), -1))

    def untrained_outputs(self) -> Tensor:
        """Return the outputs of an untrained policy [A]."""
        return self.actions.offset(None)

    def value(
        self,
        critic: Callable[..., Tensor] | None,
        seen: SeenStates | None = None,
        *,
        precision: torch.dtype = torch.float32,
    ) -> Once | None:
        """Return a critic as TorchRL's value network in this environment, as `actor` does."""
        if critic is None:
            return None
        return self._once(critic, seen, counts=self.shows_counts, precision=precision)

    def _once(self, network: Callable[..., Tensor], seen: SeenStates | None, **how: Any) -> Once:
        view = seen if self.view is not None and seen is not None else self.view
        kind = RecurrentOnce if memory_of(network) else Once
        return kind(network, self.sees, view, has_bits=self.private_bits > 0, **how)

    def collector(self, actor: Any, *, greedy: bool = False, learns: bool = False) -> MetaEpisodeCollector:
        """Return a collector of batches; those that are learnt from keep what was seen of their states."""
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

    # ------------------------------------------------------------------------------------ while it is trained in

    def renew_levels(self) -> None:
        """Sample the levels of the next batch, if they change."""

    def metrics(self) -> dict[str, Any]:
        """Return what is known of the environment so far, as metrics."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state that training changes; writing to these tensors restores it."""
        return {}
