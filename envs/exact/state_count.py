"""Estimates of the number of reachable states of a level, made before any of them is unrolled.

A state is a cell, the set of taken objects, and a tick. An agent that can be somewhere early can be there later, so the
earliest tick at which each cell can be reached with each set is enough: there are as many states as ticks from then to
shutdown. The work therefore grows with the number of pairs of a cell and a set, not with the number of ticks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.exact.earliest import MAX_TABLE, Known, chosen
from drest_torch.envs.exact.layers import MAX_STATES

MOST_PAIRS = 1 << 23
"""A level with more new pairs of a cell and a set at one tick is assumed to have more than MAX_STATES states."""


@dataclass(frozen=True)
class StateCounts:
    """The sizes of B levels, as upper bounds.

    Once a state can be reached, every later tick is assumed to be possible in it. In fact an agent that does not bump
    into walls is there only at every second tick. In the sets of `configs/levels/` the bounds are 1 or 2 % too large on
    average, and at most a quarter. On a clock that counts moves the number of states is exact if every move can be
    taken back. With n buttons that work by chance, each combination of outcomes is assumed to leave a different time: a
    factor of at most 2^n; a lottery of J outcomes is a factor of J.
    """

    states: Tensor
    """[B] reachable states with time left; MAX_STATES + 1 if more than MAX_STATES are expected."""
    width: Tensor
    """[B] the most states of one tick."""


def estimate_size(mdp: Mdp) -> StateCounts:
    """Return the size of each level of a set."""
    device, mdp = mdp.device, mdp.to("cpu")
    at_once = max(1, MAX_TABLE // max(mdp.num_cells << mdp.num_objects, mdp.max_time))
    ranges = [range(first, min(first + at_once, mdp.num_levels)) for first in range(0, mdp.num_levels, at_once)]
    counts = zip(*(_count(mdp, levels) for levels in ranges), strict=True)
    states, width = (torch.cat(numbers).clamp_max(MAX_STATES + 1).to(device) for numbers in counts)
    return StateCounts(states, width)


def _count(mdp: Mdp, levels: range) -> tuple[Tensor, Tensor]:
    """Return the number of states of each level [b], and the most states of one tick [b]."""
    bits, first_spot, goto = mdp.num_objects, levels.start * mdp.num_cells, mdp.goto.reshape(-1, NUM_ACTIONS)
    outcomes = 1 + (mdp.chance < 1).long()
    if mdp.lotteries is not None:
        outcomes = outcomes.maximum(mdp.layers["lottery"])
    states = torch.zeros(len(levels), dtype=torch.int64)
    changes = states.new_zeros(len(levels), mdp.max_time + 1)
    known = Known((len(levels) * mdp.num_cells) << bits)
    # The pairs of a cell and a set that are reached first at this tick, with the trajectory-length if all buttons of
    # the set work, and the number of outcomes of its objects.
    spot, length = mdp.start[levels.start : levels.stop], mdp.shutdown[levels.start : levels.stop]
    taken, ways, tick = torch.zeros_like(spot), torch.ones_like(spot), 0
    known.new((spot - first_spot) << bits, None)
    while len(spot):
        level = mdp.level_of(spot)
        ticks = length - tick
        # Where a bump takes no time, each tick is a move from one colour of a chessboard to the other.
        ticks = torch.where(mdp.free_bumps[level], (ticks + 1) // 2, ticks)
        level = level - levels.start
        states.index_add_(0, level, ticks * ways)
        changes[:, tick].index_add_(0, level, ways)
        changes.view(-1).index_add_(0, level * changes.shape[1] + length, -ways)
        states[torch.bincount(level, minlength=len(levels)) > MOST_PAIRS] = MAX_STATES + 1
        goes_on = (states[level] <= MAX_STATES).nonzero().squeeze(-1)
        spot, taken, length, ways = chosen(goes_on, spot, taken, length, ways)
        tick += 1
        target = goto[spot]
        taken, length, ways = (values.unsqueeze(-1) for values in (taken, length, ways))
        fresh = mdp.is_fresh(target, taken)
        taken = taken | mdp.found[target]
        length = length + mdp.most_delay[target] * fresh
        ways = ways * torch.where(fresh, outcomes[target], 1)
        key = ((target - first_spot) << bits) | taken
        new = known.new(key.reshape(-1), (length > tick).reshape(-1))
        spot, taken, length, ways = chosen(new, target, taken, length, ways)
    return states, changes.cumsum(-1).amax(-1)


def parts(mdp: Mdp, numbers: Tensor, at_most: float, levels_at_most: int | None = None) -> list[range]:
    """Split levels into consecutive ranges in which the ``numbers`` [B] sum to at most ``at_most``.

    A level with a larger number is a range of its own.
    """
    keys = (mdp.num_cells * (mdp.max_time + 1)) << mdp.num_objects
    room = max(1, (1 << 61) // keys)  # `drest_torch.envs.exact.layers` numbers the states of all levels together
    levels_at_most = room if levels_at_most is None else min(room, levels_at_most)
    ranges, first, total = [], 0, 0
    for index, number in enumerate(numbers.tolist()):
        if index > first and (total + number > at_most or index - first == levels_at_most):
            ranges.append(range(first, index))
            first, total = index, 0
        total += number
    return [*ranges, range(first, len(numbers))]
