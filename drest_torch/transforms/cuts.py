"""Mini-episodes that are cut, and do not count as they should: those that a batch holds in part, and single ones."""

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
TRUNCATES = (
    "if StepCounter(max_steps) or max_frames_per_traj does this, leave it out, or put StepCounter before ShutdownTimer"
)


def refuse_parts(batch: TensorDictBase, ended: Tensor, ticks: Iterable[NestedKey]) -> None:
    """Refuse a batch [slots, time] with mini-episodes that began before it, or were cut within it.

    ``ended`` [slots, time, 1] says where mini-episodes end, and ``ticks`` name entries that are 0 where they begin.
    """
    for key in ticks:
        if batch.get(key, None) is not None and (begun := column(batch, key)[:, 0] != 0).any():
            raise ConfigError(
                f"DReSTReward got a batch whose first step in slot {_first(begun)} is in the middle of a mini-episode "
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
            f"before its end; {TRUNCATES}"
        )


def warn_of_unfinished(batch: TensorDictBase, ended: Tensor, ticks: Iterable[NestedKey]) -> bool:
    """Warn of mini-episodes that have not ended when the batch does; return whether there are any."""
    last = batch[:, -1].get("next")
    plays = ~ended[:, -1]
    for key in ("done", "mini_waits"):
        if last.get(key, None) is not None:
            plays = plays & ~column(last, key)
    for key in ticks:
        if last.get(key, None) is not None:  # a batch that was interrupted is padded with zeros
            plays = plays & (column(last, key) != 0)
    if plays.any():
        warnings.warn(
            f"DReSTReward: {int(plays.sum())} mini-episodes have not ended when the batch does; they are neither paid "
            f"nor counted, and long ones the most often so; {REMEDY}",
            stacklevel=4,
        )
    return bool(plays.any())


def warn_of_reset(number: Tensor, done: Tensor, reset: Tensor) -> bool:
    """Warn if slots that are reset were in the middle of a meta-episode; return whether there are any.

    ``number`` [*batch, …] adds up to that of mini-episodes, and ``done`` [*batch, 1] are the ends, after the last step.
    """
    cut = ~done & reset.reshape(done.shape)
    if cut.any():
        played = int(number.sum(-1, keepdim=True)[cut].max())
        warnings.warn(
            f"DReSTReward: a slot was reset in the middle of its meta-episode (mini-episodes so far: {played}), so it "
            f"counts anew, and repeating a length is not discounted; {TRUNCATES}",
            stacklevel=4,
        )
    return bool(cut.any())


def warn_of_single_ones(number: Tensor, done: Tensor) -> bool:
    """Warn if the meta-episodes that end hold a single mini-episode each; return whether any has ended.

    ``number`` [*batch, …] adds up to that of mini-episodes, and ``done`` [*batch, 1] are the ends.
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
    """Return the first slot for which it is true."""
    return int(slots.flatten().nonzero()[0])
