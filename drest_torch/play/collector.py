"""TorchRL's collector, which collects whole meta-episodes of every slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torchrl.collectors import Collector
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType

from drest_torch.errors import blaming
from drest_torch.transforms.base import set_seed, title

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
