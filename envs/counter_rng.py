"""Counter-based random numbers: each number is a function of a key and a counter.

Each slot of an environment has its own keys and its own counter. The luck of a slot is therefore independent of the
resets and actions of other slots, and a saved counter continues the stream exactly. Drafts of random levels use the
same numbers (`Draws`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

# The constants of the splitmix64 generator (Steele, Lea, Flood 2014), as signed 64-bit numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


def mix(key: Tensor, counter: Tensor) -> Tensor:
    """Return 64 well-mixed bits for each key and counter, as an int64 that wraps around."""
    z = key + (counter + 1) * _GOLDEN
    z = (z ^ _shift_right(z, 30)) * _MIX_1
    z = (z ^ _shift_right(z, 27)) * _MIX_2
    return z ^ _shift_right(z, 31)


def uniform(key: Tensor, counter: Tensor) -> Tensor:
    """Return a float64 in [0, 1) for each key and counter."""
    return _shift_right(mix(key, counter), 11).double() * 2.0**-53


def _shift_right(z: Tensor, bits: int) -> Tensor:
    return (z >> bits) & ((1 << (64 - bits)) - 1)


class Draws:
    """The random numbers of n drafts of levels.

    The first numbers keep the order of the generator's first version, so that its levels stay the same. Numbers that
    were added later have one key for each name in ``later``. ``values`` is the generator's configuration, with the
    ranges and weights.
    """

    def __init__(self, values: Mapping[str, Any], cells: int, later: Sequence[str], seed: int, number: Tensor) -> None:
        self.bounds, self._weights, self._later = values, values["weights"] or {}, later
        self._key = mix(mix(torch.tensor(seed), torch.tensor(0)), number).unsqueeze(-1)
        sizes = {"shutdown": 1, "delay": 1, "coins": 1, "walls": 1, "coin_values": cells, "bits": cells}
        self._used = sum(sizes.values())
        self._first = dict(zip(sizes, torch.arange(self._used).split(list(sizes.values())), strict=True))

    def first(self, name: str) -> Tensor:
        """Sample whole numbers from the range of this name, with the first random numbers."""
        return self._from_range(name, self._key, self._first[name])

    def bits(self) -> Tensor:
        """Return random bits for each cell [n, S], with the first random numbers."""
        return mix(self._key, self._first["bits"])

    def later(self, name: str, *shape: int) -> Tensor:
        """Sample whole numbers [n, *shape] from the range of this name."""
        return self._from_range(name, self._key_of(name, len(shape)), _counters(shape))

    def real(self, name: str, *shape: int) -> Tensor:
        """Sample numbers in [0, 1) of shape [n, *shape]."""
        return uniform(self._key_of(name, len(shape)), _counters(shape))

    def _key_of(self, name: str, dims: int) -> Tensor:
        key = mix(self._key, torch.tensor(self._used + self._later.index(name)))
        return key.reshape(-1, *[1] * dims)

    def _from_range(self, name: str, key: Tensor, counter: Tensor) -> Tensor:
        low, high = self.bounds[name]
        weights, number = self._weights.get(name), uniform(key, counter)
        if weights is None:
            return low + (number * (high - low + 1)).long().clamp_max(high - low)
        # The weights divide [0, 1) among the whole numbers; a number of weight 0 gets no part.
        ends = torch.tensor(weights, dtype=torch.float64).cumsum(0)
        last = max(index for index, weight in enumerate(weights) if weight > 0)
        index = torch.searchsorted(ends / ends[-1], number, right=True)
        return low + index.clamp_max(last)


def _counters(shape: tuple[int, ...]) -> Tensor:
    return torch.arange(math.prod(shape)).reshape(shape)
