"""Random numbers of transforms, seeded by `env.set_seed`: TorchRL itself seeds only the base environment."""

from __future__ import annotations

import multiprocessing
import weakref
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torchrl.envs import EnvBase, Transform, TransformedEnv


class RandomStream:
    """A random generator, which is seeded from torch's generator unless it has a seed.

    Unseeded copies of an environment therefore have different streams, in one process or in several. Clones of a
    transform share one stream.
    """

    def __init__(self, seed: int | None) -> None:
        self._generator = torch.Generator()
        self.restart(seed)

    def restart(self, seed: int | None) -> None:
        """Restart with a seed; None: draw it from torch's generator at the first use."""
        self._is_seeded = seed is not None
        if seed is not None:
            self._generator.manual_seed(seed)

    @property
    def generator(self) -> torch.Generator:
        """The generator for sampling."""
        if not self._is_seeded:
            drawn = int(torch.randint(2**62, ()))
            self.restart(
                derive_seed(drawn, multiprocessing.current_process().name)
            )  # processes may share torch's state
        return self._generator


def derive_seed(seed: int, name: str) -> int:
    """Return a seed for the stream of this name; streams of different seeds or names are independent."""
    sequence = np.random.SeedSequence([seed % 2**64, zlib.crc32(name.encode())])
    return int(sequence.generate_state(1, np.uint64)[0]) % 2**63


def seeded_transforms(env: EnvBase) -> Iterator[Transform]:
    """Yield the transforms of an environment with a `set_seed`."""
    while isinstance(env, TransformedEnv):
        yield from (transform for transform in env.transform.modules() if hasattr(transform, "set_seed"))
        env = env.base_env


class SeedsTransforms:
    """A `set_seed` that seeds an environment and its transforms, each with its own stream."""

    def __init__(self, env: EnvBase) -> None:
        self._env = weakref.ref(env)

    def __call__(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment and its transforms; return TorchRL's next seed."""
        env = self._env()
        assert env is not None
        following = type(env).set_seed(env, seed, static_seed=static_seed)
        for transform in seeded_transforms(env):
            stream = seed
            if seed is not None:
                stream = derive_seed(seed, type(transform).__name__)
            transform.set_seed(stream)
        return following

    def __getstate__(self) -> dict[str, Any]:
        return {"env": self._env()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._env = weakref.ref(state["env"])
