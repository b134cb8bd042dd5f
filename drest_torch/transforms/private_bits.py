"""Private bits: random bits for the policy alone, constant during a mini-episode."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Unbounded
from torchrl.envs import EnvBase

from drest_torch.errors import ConfigError
from drest_torch.transforms.base import Entries, SamplingTransform, check_whole, choose, column, title


class PrivateBits(SamplingTransform):
    """A transform that adds ``private_bits`` [*batch, count], uniform over {0, 1}, sampled for each mini-episode.

    Args:
        count: the number of private bits.
        seed: the seed of the bits; None: set by `env.set_seed`, or else from torch's generator.
    """

    def __init__(self, count: int, *, seed: int | None = None) -> None:
        super().__init__(seed)
        check_whole("PrivateBits", count=count)
        self.count = count

    def check_environment(self, env: EnvBase) -> None:
        super().check_environment(env)
        if env.observation_spec.get("mini_done", None) is None:
            raise ConfigError(
                f"PrivateBits reads 'mini_done', the end of a mini-episode, but {title(env)} does not declare it; put "
                "MetaEpisodes before it"
            )

    def entries(self, batch: torch.Size, device: torch.device | None) -> Entries:
        return {"private_bits": Unbounded((*batch, self.count), device=device)}

    def _sample(self, like: TensorDictBase) -> Tensor:
        numbers = torch.rand((*like.batch_size, self.count), generator=self.random.generator)
        return (numbers < 0.5).float().to(like.device)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        ended, bits = column(next_tensordict, "mini_done"), tensordict.get("private_bits")
        if ended.any():
            bits = choose(ended, self._sample(tensordict), bits)
        return next_tensordict.set("private_bits", bits)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset.set("private_bits", self._sample(tensordict_reset))
