"""The rules of `Mdp.advance` and `step_episodes` once more, slot by slot, for numba; tests/test_kernel.py ties the two.

This module imports numba, so it is imported by `drest_torch.envs.dynamics.kernel` alone, and only where that pays.
"""

from __future__ import annotations

from typing import Any

from numba import cfunc, types

NUM_ACTIONS = 4
INTEGERS, BOOLS = types.CPointer(types.int64), types.CPointer(types.uint8)


def address_of(*, double: bool) -> int:
    """Compile the step, or load it from the cache, for coins and chances in double or single precision."""
    floats = types.CPointer(types.float64 if double else types.float32)
    tables = [INTEGERS] * 3 + [floats] * 2 + [BOOLS]
    results = [INTEGERS] * 5 + [floats, BOOLS]
    arguments = [types.int64] * 4 + tables + [INTEGERS] * 7 + [floats] + results
    address: Any = cfunc(types.boolean(*arguments), cache=True)(_step).address
    return int(address)


def _step(
    slots: int,
    spots: int,
    cells: int,
    lucky: int,
    goto: Any,
    found: Any,
    delay: Any,
    coin: Any,
    chance: Any,
    free_bumps: Any,
    start: Any,
    shutdown: Any,
    spot: Any,
    taken: Any,
    time_left: Any,
    ticks: Any,
    action: Any,
    luck: Any,
    next_spot: Any,
    next_taken: Any,
    next_time_left: Any,
    next_ticks: Any,
    length: Any,
    collected: Any,
    done: Any,
) -> bool:
    """Play one step of every slot; return False if a spot or an action does not exist.

    ``cells`` is the number of cells of a map, or 0 if no bump is free; without luck, ``lucky`` is 0. The others are the
    addresses of arrays.
    """
    for slot in range(slots):
        here, move = spot[slot], action[slot]
        if here < 0 or here >= spots or move < 0 or move >= NUM_ACTIONS:
            return False
        there = goto[here * NUM_ACTIONS + move]
        bit, before = found[there], taken[slot]
        added, tick = 0, 1
        collected[slot] = 0
        if bit & ~before:
            collected[slot] = coin[there]
            if lucky == 0 or luck[slot] < chance[there]:
                added = delay[there]
        if cells > 0 and there == here and free_bumps[here // cells]:
            tick = 0
        played = ticks[slot] + tick
        after = time_left[slot] - tick + added
        length[slot] = played
        if after == 0:
            done[slot] = 1
            next_spot[slot], next_taken[slot] = start[slot], 0
            next_time_left[slot], next_ticks[slot] = shutdown[slot], 0
        else:
            done[slot] = 0
            next_spot[slot], next_taken[slot] = there, before | bit
            next_time_left[slot], next_ticks[slot] = after, played
    return True
