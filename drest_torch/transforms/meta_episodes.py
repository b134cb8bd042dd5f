"""Mini-episodes one after the other within a meta-episode, as a TorchRL transform."""

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
    begin_anew,
    check_resets,
    check_whole,
    column,
    set_done,
    stays_ended,
    title,
    whole,
)

KEPT = ("mini_len", "best_return", "mini_done")
"""What describes the mini-episode that has ended: not the entries after the reset."""


class MetaEpisodes(SamplingTransform):
    """Plays E mini-episodes, one after the other, before the environment is done.

    What ends the environment without the transform ends a mini-episode with it: the environment is reset within the
    same step, and ``mini_done`` says so. ``done`` is the end of the meta-episode, and ``mini_idx`` the number of
    mini-episodes that have ended.

    With ``together``, a slot that has played its meta-episode waits, and ``done`` comes when all slots have: a batch
    then holds one whole meta-episode of each slot. While a slot waits (``mini_waits``), its rewards are 0, ``mini_idx``
    stays at E, and what it shows and does has no meaning. An environment with mini-episodes of its own, whose ``done``
    is the end of a meta-episode, can be made to wait in the same way.

    Args:
        episodes: E.
        together: whether slots wait for one another.
        group: neighbouring slots of a group; they have the same levels.
        levels: seeds of levels. At the start of a meta-episode one is sampled, and all of its mini-episodes are
            played on it. The environment has to take a seed from ``level_seed`` at a reset, as `GymnasiumBatch` does.
            None: every mini-episode begins as the environment has it.
        seed: of the choice of levels; None: `env.set_seed` sets it, or else torch's own generator.

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
        self.own = False
        """Whether the environment has mini-episodes of its own, so that its ``done`` is the end of a meta-episode."""
        self.first: int | None = None
        """Where in `levels` the levels begin that slots are dealt in turn; None: they are sampled."""
        self._over = False
        self._quiet = 0  # steps since a mini-episode has ended

    def check_environment(self, parent: EnvBase) -> None:
        """Refuse an environment whose slots groups do not divide, or whose levels cannot be chosen."""
        self.own = parent.observation_spec.get("mini_done", None) is not None
        if self.own and (self.episodes > 1 or not self.together):
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
        if not self.own:
            entries["mini_done"] = Binary(shape=(*batch, 1), dtype=torch.bool, device=device)
            entries["mini_idx"] = whole(batch, device)
        if self.together:
            entries["mini_waits"] = Binary(shape=(*batch, 1), dtype=torch.bool, device=device)
        if self._levels is not None:
            entries[LEVEL] = whole(batch, device)
        return entries

    def collection_stopped(self) -> bool:
        """Return whether slots that wait for one another have all played their meta-episode; a collector asks."""
        return self._over

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Do not step what waits, in an environment that can leave slots out."""
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
        mini_done = ended
        if self.own:
            mini_done = column(next_tensordict, "mini_done")
        mini_done = mini_done & ~waits
        self._check_quiet(mini_done, env)
        if self.own:
            meta_done = waits | ended
        else:
            played = tensordict.get("mini_idx") + mini_done
            next_tensordict.set("mini_idx", played)
            meta_done = played >= self.episodes
        if self.together:
            if waits.any():
                next_tensordict.set("reward", torch.where(waits, 0, column(next_tensordict, "reward")))
            self._over = bool(meta_done.all())
            next_tensordict.set("mini_waits", meta_done & (not self._over))
            meta_done = torch.full_like(meta_done, self._over)
        level: Tensor | None = None
        if self._levels is not None:
            level = tensordict.get(LEVEL)
        # A slot that waits begins anew as well, unseen: an environment is never stepped after its end.
        begins = ended & ~meta_done
        if begins.any():
            begin_anew(env, next_tensordict, begins, level=level, kept=KEPT)
        if level is not None:
            next_tensordict.set(LEVEL, level)
        next_tensordict.set("mini_done", mini_done)
        set_done(env, next_tensordict, meta_done)
        return next_tensordict

    def _check_quiet(self, mini_done: Tensor, env: EnvBase) -> None:
        """Refuse an environment in which no mini-episode ends for too many steps."""
        self._quiet += 1
        if mini_done.any():
            self._quiet = 0
        if self._quiet >= MOST_STEPS:
            raise UserError(
                f"{title(env)} has played {self._quiet} steps, and no mini-episode has ended; let it end, or shut it "
                "down with ShutdownTimer (env.base)"
            )

    # ------------------------------------------------------------------------------------ levels

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        """Choose the levels of the meta-episodes that begin."""
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
        begun = super()._reset(tensordict, tensordict_reset)
        if self._levels is not None:
            begun.set(LEVEL, tensordict.get(LEVEL))
        return begun
