"""The lengths of an environment that shuts down by itself, as a TorchRL transform."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase

from drest_torch.errors import ConfigError, UserError
from drest_torch.timer import MOST_STEPS
from drest_torch.transforms.base import (
    Entries,
    StatefulTransform,
    check_finite,
    check_whole,
    column,
    index_of,
    title,
    whole,
)
from drest_torch.transforms.shutdown_timer import ShutdownTimer


class OwnLengths(StatefulTransform):
    """Says which length a mini-episode had, in an environment that has a timer of its own.

    The environment's ``done`` is shutdown, which comes after one of a few numbers of steps; how the agent delays it is
    the environment's own. The transform adds ``tick`` (steps so far) and ``mini_len`` (the index of the length), which
    `MetaEpisodes` and `DReSTReward` read.

    Args:
        lengths: the numbers of steps after which the environment can end, shortest first.

    Example:
        >>> from torchrl.envs import GymEnv, TransformedEnv
        >>> env = TransformedEnv(GymEnv("Pendulum-v1"), OwnLengths([200]))
    """

    comes_before = ShutdownTimer.comes_before

    def __init__(self, lengths: Sequence[int]) -> None:
        super().__init__()
        if not lengths or list(lengths) != sorted(set(lengths)) or lengths[-1] > MOST_STEPS:
            raise ConfigError(
                f"lengths {list(lengths)} of an environment with its own timer; expected numbers of steps, the "
                f"shortest first, each once, up to {MOST_STEPS}"
            )
        check_whole("OwnLengths", **{f"lengths[{i}]": length for i, length in enumerate(lengths)})
        self.lengths = list(lengths)
        self._ends = torch.tensor(self.lengths)

    def entries(self, batch: torch.Size, device: torch.device | None) -> Entries:
        return {"tick": whole(batch, device), "mini_len": index_of(len(self.lengths), batch, device)}

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        env = self.parent
        assert env is not None
        check_finite(column(next_tensordict, "reward"), env)
        done = column(next_tensordict, "done")
        over = torch.zeros_like(done)  # what waits after its end may not be stepped, and its time stands still
        for key in ("done", "mini_waits"):
            over = over | (column(tensordict, key) if key in tensordict.keys() else False)  # noqa: SIM118
        tick, ends = tensordict.get("tick") + ~over, self._ends.to(done.device)
        index = torch.searchsorted(ends, tick).clamp_max(len(ends) - 1)
        wrong = ((done & (ends[index] != tick)) | (~done & (tick >= ends[-1]))) & ~over
        if wrong.any():
            steps = int(tick[wrong][0])
            raise UserError(
                f"{title(env)} {'ended' if done[wrong][0] else 'goes on'} after {steps} steps, and its lengths are "
                f"{self.lengths}; list every number of steps after which it shuts down, or leave shutdown to a timer "
                "(env.base and env.delays)"
            )
        return next_tensordict.set("tick", tick).set("mini_len", index)
