"""`step_episodes` as compiled code, for large batches on a CPU: the same results in a fraction of the time.

It needs numba, which comes with the commands (``pip install drest_torch[train]``). Loading it takes about a second, and
compiling it, once for an installation, some seconds. A process therefore loads it when it has played so many steps
that this pays, or when it calls `load`. Until then, and wherever it does not apply, the function of tensors plays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

WORTH_LOADING = 50_000_000
"""Steps of slots in which the kernel saves as much time as it takes to load."""
CALL = 4_000
"""A call of the function of tensors takes as long as the steps of so many slots, whatever their number."""
_TYPES = {
    precision: (*[torch.int64] * 3, precision, precision, torch.bool, *[torch.int64] * 7, precision)
    for precision in (torch.float32, torch.float64)
}
"""Types of the tables, of the slots and of luck, for each precision of coins and chances."""
_ADDRESSES = 21
"""Tensors that the kernel reads or writes."""

_loaded: dict[torch.dtype, Callable[..., int] | None] = {}
"""The kernel for each precision of coins and chances; None where there is no numba."""
_played = 0
"""Steps of slots that were played without the kernel."""


def load(dtype: torch.dtype = torch.float32) -> bool:
    """Load the kernel for level sets whose coins and chances have this precision; return whether there is one."""
    if dtype not in _loaded:
        _loaded[dtype] = _compiled(dtype)
    return _loaded[dtype] is not None


@contextmanager
def unused() -> Iterator[None]:
    """Play all steps by operations on tensors, for comparisons."""
    loaded = dict(_loaded)
    _loaded.update(dict.fromkeys(_TYPES))
    try:
        yield
    finally:
        _loaded.clear()
        _loaded.update(loaded)


def play(tables: Sequence[Tensor], slots: Sequence[Tensor], luck: Tensor | None, cells: int) -> list[Tensor] | None:
    """Play a step of every slot; return None if the kernel is not loaded, or not made for these tensors.

    The tables are those of the level set: goto, found, delay, coin, chance and free bumps; ``cells`` is the number of
    cells of a map, or 0 if no bump is free. The slots are start, shutdown, spot, taken, time left, ticks and action.
    The results are spot, taken, time left and ticks after the step, the length up to it, and its coin and its end.
    """
    coin, spot = tables[3], slots[2]
    shape, precision = spot.shape, coin.dtype
    kernel = _loaded.get(precision) or _when_worth_it(precision, spot.numel())
    if kernel is None or len(shape) != 1:
        return None
    given = (*tables, *slots) if luck is None else (*tables, *slots, luck)
    for value, dtype in zip(given, _TYPES[precision], strict=False):
        if not (value.is_cpu and value.is_contiguous() and value.dtype is dtype):
            return None
    for value in given[len(tables) :]:
        if value.shape != shape:
            return None
    if coin.requires_grad:
        return None
    slots_here = shape[0]
    results = [like.new_empty(slots_here) for like in (spot, spot, spot, spot, spot, coin, tables[-1])]
    try:
        pointers = [value.data_ptr() for value in (*given, *results)]
    except RuntimeError:  # a tensor without data, as within torch.func.vmap
        return None
    if luck is None:
        pointers.insert(len(given), pointers[0])  # not read
    return results if kernel(slots_here, tables[1].shape[0], cells, luck is not None, *pointers) else None


def _when_worth_it(dtype: torch.dtype, slots: int) -> Callable[..., int] | None:
    """Count a step of these slots; return the kernel as soon as it is worth loading."""
    global _played
    _played += slots + CALL
    return _loaded[dtype] if _played >= WORTH_LOADING and load(dtype) else None


def _compiled(dtype: torch.dtype) -> Callable[..., int] | None:
    """Return the kernel as a function of numbers and addresses, which releases the GIL."""
    if dtype not in _TYPES:
        return None
    try:
        from drest_torch.envs.dynamics.compiled_step import address_of
    except ImportError:
        return None
    try:
        address = address_of(double=dtype == torch.float64)
    except RuntimeError:  # numba finds no folder for its cache
        return None
    arguments: list[Any] = [ctypes.c_int64] * 4 + [ctypes.c_void_p] * _ADDRESSES
    return ctypes.CFUNCTYPE(ctypes.c_bool, *arguments)(address)
