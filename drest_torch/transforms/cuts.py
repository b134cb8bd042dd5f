"""Checks for cut mini-episodes and meta-episodes, whose lengths would not be counted correctly."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor

from drest_torch.errors import ConfigError
from drest_torch.transforms.base import column

REMEDY = (
    "collect whole meta-episodes, with MetaEpisodes(…, together=True) and "
    "drest_torch.play.collector.MetaEpisodeCollector, or put DReSTReward with sequential counting into the environment"
)
TRUNCATION_REMEDY = (
    "if StepCounter(max_steps) or max_frames_per_traj does this, leave it out, or put StepCounter before ShutdownTimer"
)


def refuse_parts(batch: TensorDictBase, ended: Tensor, ticks: Iterable[NestedKey]) -> None:
    """Refuse a batch [slots, time] with mini-episodes that began before it or were truncated.

    ``ended`` [slots, time, 1] marks the ends of mini-episodes; the entries ``ticks`` are 0 at their starts.
    """
    for key in ticks:
        if batch.get(key, None) is not None and (inside := column(batch, key)[:, 0] != 0).any():
            raise ConfigError(
                f"DReSTReward got a batch whose first step in slot {_first(inside)} is in the middle of a mini-episode "
                f"({key!r} is not 0), so that some of its rewards are not in the batch; {REMEDY}"
            )
    after = batch.get("next")
    truncated, terminated = (after.get(key, None) for key in ("truncated", "terminated"))
    if truncated is None:
        return
    if terminated is not None:
        truncated = truncated & ~terminated
    cut = truncated.reshape(ended.shape) & ~ended
    if cut.any():
        raise ConfigError(
            f"DReSTReward got a batch in which a mini-episode of slot {_first(cut.squeeze(-1).any(-1))} was truncated "
            f"before its end; {TRUNCATION_REMEDY}"
        )


def warn_of_unfinished(batch: TensorDictBase, ended: Tensor, ticks: Iterable[NestedKey]) -> bool:
    """Warn of unfinished mini-episodes at the end of the batch; return whether there are any."""
    last = batch[:, -1].get("next")
    plays = ~ended[:, -1]
    for key in ("done", "mini_waits"):
        if last.get(key, None) is not None:
            plays = plays & ~column(last, key)
    for key in ticks:
        if last.get(key, None) is not None:  # an interrupted batch is padded with zeros
            plays = plays & (column(last, key) != 0)
    if plays.any():
        warnings.warn(
            f"DReSTReward: {int(plays.sum())} mini-episodes have not ended when the batch does; they are neither paid "
            f"nor counted, and long ones the most often so; {REMEDY}",
            stacklevel=4,
        )
    return bool(plays.any())


def warn_of_reset(number: Tensor, done: Tensor, reset: Tensor) -> bool:
    """Warn of slots that were reset in the middle of a meta-episode; return whether there are any.

    ``number`` [*batch, …] sums to the number of mini-episodes; ``done`` [*batch, 1] marks the ends after the last step.
    """
    cut = ~done & reset.reshape(done.shape)
    if cut.any():
        played = int(number.sum(-1, keepdim=True)[cut].max())
        warnings.warn(
            f"DReSTReward: a slot was reset in the middle of its meta-episode (mini-episodes so far: {played}), so it "
            f"counts anew, and repeating a length is not discounted; {TRUNCATION_REMEDY}",
            stacklevel=4,
        )
    return bool(cut.any())


def warn_of_single_episodes(number: Tensor, done: Tensor) -> bool:
    """Warn if all ending meta-episodes have a single mini-episode; return whether any meta-episode ends.

    ``number`` [*batch, …] sums to the number of mini-episodes; ``done`` [*batch, 1] marks the ends.
    """
    played = number.sum(-1, keepdim=True)[done]
    if not played.any():
        return False
    if (played < 2).all():
        warnings.warn(
            "DReSTReward: a meta-episode ended after its first mini-episode, so every discount is 1; `done` must be "
            "the end of a meta-episode of several mini-episodes (docs/tutorials/environment.md)",
            stacklevel=3,
        )
    return True


def _first(slots: Tensor) -> int:
    """Return the index of the first entry that is true."""
    return int(slots.flatten().nonzero()[0])
