"""A TorchRL transform that plays mini-episodes in sequence within a meta-episode."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary
from torchrl.envs import EnvBase

from drest_torch.errors import ConfigError, UserError
from drest_torch.timer import MOST_STEPS
from drest_torch.transforms.base import (
    LEVEL,
    Entries,
    SamplingTransform,
    check_resets,
    check_whole,
    column,
    reset_slots,
    set_done,
    stays_ended,
    title,
    whole,
)

ENDED_KEYS = ("mini_len", "best_return", "mini_done")
"""The keys of the finished mini-episode, which a reset within the step must not overwrite."""


class MetaEpisodes(SamplingTransform):
    """A transform that plays E mini-episodes in sequence before the environment is done.

    The ends of the base environment become ends of mini-episodes: the environment is reset within the same step, which
    is marked by ``mini_done``. ``done`` is the end of the meta-episode, and ``mini_idx`` the number of finished
    mini-episodes.

    With ``together``, slots wait at the end of their meta-episode until all slots have finished theirs: a batch then
    contains one whole meta-episode of each slot. The rewards of a waiting slot (``mini_waits``) are 0, its ``mini_idx``
    stays at E, and its other entries have no meaning. An environment with its own mini-episodes, whose ``done`` is the
    end of a meta-episode, can be made to wait in the same way.

    Args:
        episodes: E.
        together: whether slots wait for each other.
        group: the number of neighbouring slots that share their levels.
        levels: seeds of levels. At the start of a meta-episode one level is sampled for all of its mini-episodes. The
            environment must accept a ``level_seed`` at a reset, as `GymnasiumBatch` does. None: the environment chooses
            its start in every mini-episode.
        seed: the seed of the choice of levels; None: set by `env.set_seed`, or else from torch's generator.

    Example:
        >>> from torchrl.envs import Compose, GymEnv, TransformedEnv
        >>> from drest_torch.transforms import DReSTReward, ShutdownTimer
        >>> steps = Compose(
        ...     ShutdownTimer(100, [100]), MetaEpisodes(32), DReSTReward(num_lengths_key=None, divide_by_best=False)
        ... )
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), steps)
    """

    def __init__(
        self,
        episodes: int,
        *,
        together: bool = False,
        group: int = 1,
        levels: Sequence[int] | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed)
        check_whole("MetaEpisodes", episodes=episodes, group=group)
        if levels is not None and len(levels) == 0:
            raise ConfigError("MetaEpisodes with no levels; give at least one seed, or levels=None")
        self.episodes, self.together, self.group = episodes, together, group
        self._levels: Tensor | None = None
        if levels is not None:
            self._levels = torch.tensor(list(levels))
        self.env_has_mini_episodes = False
        """True if the environment has its own mini-episodes, so that its ``done`` is the end of a meta-episode."""
        self.first: int | None = None
        """The index into `levels` of the first slot's level, with consecutive levels for slots; None: sample levels."""
        self._quota: Tensor | None = None
        """[slots, 1] the mini-episodes of each slot's meta-episode; None: `episodes`."""
        self.playing: int | None = None
        """The number of slots that play, while the others wait; None: all."""
        self._over = False
        self._quiet = 0  # steps since the last end of a mini-episode

    def check_environment(self, parent: EnvBase) -> None:
        """Refuse an environment whose slots cannot be grouped, or whose levels cannot be chosen."""
        self.env_has_mini_episodes = parent.observation_spec.get("mini_done", None) is not None
        if self.env_has_mini_episodes and (self.episodes > 1 or not self.together):
            raise ConfigError(
                f"{title(parent)} plays mini-episodes of its own ('mini_done'), so its `done` is the end of a "
                "meta-episode; MetaEpisodes(1, together=True) makes its slots wait for one another"
            )
        super().check_environment(parent)
        check_resets("MetaEpisodes", parent)
        slots = parent.batch_size.numel()
        if slots % self.group:
            raise ConfigError(f"{slots} slots cannot be grouped by {self.group}; use a group size that divides them")
        if self._levels is not None and parent.full_state_spec.get(LEVEL, None) is None:
            raise ConfigError(
                f"{title(parent)} takes no seed of a level from '{LEVEL}' at a reset; declare it in its state_spec, or "
                "use levels=None"
            )

    def entries(self, batch: torch.Size, device: torch.device | None) -> Entries:
        entries: Entries = {}
        if not self.env_has_mini_episodes:
            entries["mini_done"] = Binary(shape=(*batch, 1), dtype=torch.bool, device=device)
            entries["mini_idx"] = whole(batch, device)
        if self.together:
            entries["mini_waits"] = Binary(shape=(*batch, 1), dtype=torch.bool, device=device)
        if self._levels is not None:
            entries[LEVEL] = whole(batch, device)
        return entries

    def collection_stopped(self) -> bool:
        """Return whether all slots have finished their meta-episode, for collectors of whole meta-episodes."""
        return self._over

    def limit(self, slots: int, rounds: int) -> None:
        """Let only the first ``slots`` play, each for ``rounds`` mini-episodes, from the next reset of all slots on.

        An environment with its own mini-episodes always plays its whole meta-episode.
        """
        env = self.parent
        assert env is not None
        place = torch.arange(env.batch_size.numel(), device=env.device).reshape(*env.batch_size, 1)
        self.playing, self._quota = slots, (place < slots) * rounds

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Skip waiting slots in the step, if the environment supports this."""
        env = self.parent
        if not self.together or env is None or not stays_ended(env):
            return tensordict
        return tensordict.set("_step", ~tensordict.get("mini_waits"))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        env = self.parent
        assert env is not None
        ended = column(next_tensordict, "done").clone()
        waits = torch.zeros_like(ended)
        if self.together:
            waits = tensordict.get("mini_waits")
        quota: Tensor | int = self.episodes
        if self._quota is not None:
            quota = self._quota
        mini_done = ended
        if self.env_has_mini_episodes:
            mini_done = column(next_tensordict, "mini_done")
        mini_done = mini_done & ~waits
        self._check_quiet(mini_done, env)
        if self.env_has_mini_episodes:
            meta_done = waits | ended
        else:
            played = tensordict.get("mini_idx") + mini_done
            next_tensordict.set("mini_idx", played)
            meta_done = played >= quota
        if self.together:
            if waits.any():
                next_tensordict.set("reward", torch.where(waits, 0, column(next_tensordict, "reward")))
            self._over = bool(meta_done.all())
            next_tensordict.set("mini_waits", meta_done & (not self._over))
            meta_done = torch.full_like(meta_done, self._over)
        level: Tensor | None = None
        if self._levels is not None:
            level = tensordict.get(LEVEL)
        # Waiting slots are reset as well, without effect, because an environment must not be stepped after its end.
        begins = ended & ~meta_done
        if begins.any():
            reset_slots(env, next_tensordict, begins, level=level, unchanged=ENDED_KEYS)
        if level is not None:
            next_tensordict.set(LEVEL, level)
        next_tensordict.set("mini_done", mini_done)
        set_done(env, next_tensordict, meta_done)
        return next_tensordict

    def _check_quiet(self, mini_done: Tensor, env: EnvBase) -> None:
        """Refuse an environment with too many steps without an end of a mini-episode."""
        self._quiet += 1
        if mini_done.any():
            self._quiet = 0
        if self._quiet >= MOST_STEPS:
            raise UserError(
                f"{title(env)} has played {self._quiet} steps, but no mini-episode has ended; let it end, or shut it "
                "down with ShutdownTimer (env.base)"
            )

    # ------------------------------------------------------------------------------------ levels

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        """Choose the levels of new meta-episodes."""
        if self._levels is None:
            return tensordict
        env = self.parent
        assert env is not None
        shape = (*env.batch_size, 1)
        groups = env.batch_size.numel() // self.group
        if self.first is None:
            chosen = torch.randint(len(self._levels), (groups,), generator=self.random.generator)
        else:
            chosen = (self.first + torch.arange(groups)) % len(self._levels)
        level = self._levels[chosen].repeat_interleave(self.group).reshape(shape).to(env.device)
        if tensordict is None:
            return TensorDict({LEVEL: level}, batch_size=env.batch_size, device=env.device)
        return tensordict.set(LEVEL, level)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self._quiet = 0
        state = super()._reset(tensordict, tensordict_reset)
        if self._levels is not None:
            state.set(LEVEL, tensordict.get(LEVEL))
        if self._quota is not None:
            state.set("mini_waits", self._quota == 0)
        return state
