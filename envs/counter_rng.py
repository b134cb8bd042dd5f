"""Random numbers that depend on a key and a counter alone.

Each slot of an environment has its own keys and counts the numbers that it samples. No slot's luck depends on when the
others reset or what they do, and a saved counter continues the stream exactly.
"""

from __future__ import annotations

from torch import Tensor

# The constants of the splitmix64 generator (Steele, Lea, Flood 2014), as signed 64-bit numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


def mix(key: Tensor, counter: Tensor) -> Tensor:
    """Return 64 well mixed bits for each key and counter (as int64, which wraps around)."""
    z = key + (counter + 1) * _GOLDEN
    z = (z ^ _shift_right(z, 30)) * _MIX_1
    z = (z ^ _shift_right(z, 27)) * _MIX_2
    return z ^ _shift_right(z, 31)


def uniform(key: Tensor, counter: Tensor) -> Tensor:
    """Return a float64 in [0, 1) for each key and counter."""
    return _shift_right(mix(key, counter), 11).double() * 2.0**-53


def _shift_right(z: Tensor, bits: int) -> Tensor:
    return (z >> bits) & ((1 << (64 - bits)) - 1)
