"""Random numbers of transforms, which `env.set_seed` reaches: TorchRL seeds the environment within them alone."""

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
    """A generator of random numbers. Without a seed it begins anywhere, as torch's own generator has it.

    Copies of an environment that were given no seed thereby have different streams, in one process or in several.
    Clones of a transform share one.
    """

    def __init__(self, seed: int | None) -> None:
        self._generator = torch.Generator()
        self.restart(seed)

    def restart(self, seed: int | None) -> None:
        """Begin anew with a seed; None: with one that torch's own generator gives when a number is needed."""
        self._is_seeded = seed is not None
        if seed is not None:
            self._generator.manual_seed(seed)

    @property
    def generator(self) -> torch.Generator:
        """Return the generator to sample with."""
        if not self._is_seeded:
            drawn = int(torch.randint(2**62, ()))
            self.restart(derived(drawn, multiprocessing.current_process().name))  # processes may share torch's state
        return self._generator


def derived(seed: int, name: str) -> int:
    """Return the seed of a stream of this name: streams of different seeds or names are independent."""
    sequence = np.random.SeedSequence([seed % 2**64, zlib.crc32(name.encode())])
    return int(sequence.generate_state(1, np.uint64)[0]) % 2**63


def sampling(env: EnvBase) -> Iterator[Transform]:
    """Yield the transforms of an environment that have a seed."""
    while isinstance(env, TransformedEnv):
        yield from (each for each in env.transform.modules() if hasattr(each, "set_seed"))
        env = env.base_env


class SeedsTransforms:
    """`set_seed` of an environment and of its transforms, each with a stream of its own."""

    def __init__(self, env: EnvBase) -> None:
        self._env = weakref.ref(env)

    def __call__(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed everything; return TorchRL's next seed."""
        env = self._env()
        assert env is not None
        following = type(env).set_seed(env, seed, static_seed=static_seed)
        for transform in sampling(env):
            stream = seed
            if seed is not None:
                stream = derived(seed, type(transform).__name__)
            transform.set_seed(stream)
        return following

    def __getstate__(self) -> dict[str, Any]:
        return {"env": self._env()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._env = weakref.ref(state["env"])
