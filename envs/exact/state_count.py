"""Estimates of the number of reachable states of a level, made before any of them is unrolled.

A state is a cell, the set of taken objects, and a tick. An agent that can be somewhere early can be there later, so the
earliest tick at which each cell can be reached with each set is enough: there are as many states as ticks from then to
shutdown. This tick follows from the distances between the objects of a level, for all orders of taking them at once.
The work therefore grows with the number of sets that can be taken in time, not with the number of ticks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.exact.layers import MAX_STATES

FAR = 1 << 13
"""The distance to a cell that cannot be reached: longer than any trajectory, and twice of it is a 16-bit number."""
NUMBERS_AT_ONCE = 1 << 22
MOST_NUMBERS = 1 << 27
"""A level whose sets of one size need more numbers than this is assumed to have more than MAX_STATES states."""


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
    at_once = max(1, NUMBERS_AT_ONCE // (mdp.num_cells * (mdp.num_objects + 1)))
    parts = [
        _Sets(mdp, range(first, min(first + at_once, mdp.num_levels))).count()
        for first in range(0, mdp.num_levels, at_once)
    ]
    states, width = (torch.cat(counts).clamp_max(MAX_STATES + 1) for counts in zip(*parts, strict=True))
    return StateCounts(states, width)


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


@dataclass(frozen=True)
class _Taken:
    """G sets of taken objects, each in a level."""

    level: Tensor
    """[G] the level, counted from the first of the range."""
    bits: Tensor
    """[G]"""
    tick: Tensor
    """[G, places] the earliest tick at which the agent can be at each place with this set taken."""

    def __len__(self) -> int:
        return len(self.level)

    def __getitem__(self, index: Tensor | slice) -> _Taken:
        return _Taken(self.level[index], self.bits[index], self.tick[index])


class _Sets:
    """The sets of objects that can be taken in a range of levels. The *places* of a level are the cells of its objects
    and the start."""

    def __init__(self, mdp: Mdp, levels: range) -> None:
        self.mdp, self.first, self.num_levels, self.bits = mdp, levels.start, len(levels), mdp.num_objects
        spots = slice(levels.start * mdp.num_cells, levels.stop * mdp.num_cells)
        bit = mdp.found[spots]
        spot = bit.nonzero().squeeze(-1)
        index = (spot // mdp.num_cells, bit[spot].double().log2().long())
        nothing = bit.new_zeros(len(levels), self.bits)
        self.exists = nothing.bool().index_put(index, torch.ones_like(spot, dtype=torch.bool))
        self.cell = nothing.index_put(index, spot % mdp.num_cells)
        """[b, bits] the cell of each object"""
        self.delay = nothing.index_put(index, mdp.most_delay[spots][spot])
        outcomes = 1 + (mdp.chance[spots][spot] < 1).long()
        if mdp.lotteries is not None:
            outcomes = outcomes.maximum(mdp.layers["lottery"][spots][spot])
        self.outcomes = (nothing + 1).index_put(index, outcomes)
        """[b, bits] the outcomes of each object"""
        self.shutdown = mdp.shutdown[levels.start : levels.stop]
        self.free_bumps = mdp.free_bumps[levels.start : levels.stop]
        self.distance = self._distances()
        self.between = self.distance.gather(2, self.cell.unsqueeze(1).expand(-1, self.bits + 1, -1))
        """[b, places, bits] moves from each place to each object, without entering another"""

    def count(self) -> tuple[Tensor, Tensor]:
        """Return the number of states of each level [b], and the most states of one tick [b]."""
        level = torch.arange(self.num_levels, device=self.mdp.device)
        states = torch.zeros_like(level)
        changes = states.new_zeros(self.num_levels, self.mdp.max_time + 1)
        start = self.between.new_full((self.num_levels, self.bits + 1), FAR)
        start[:, -1] = 0
        sets = _Taken(level, torch.zeros_like(level), start)
        at_once = max(1, NUMBERS_AT_ONCE // self.mdp.num_cells)
        while len(sets):
            before = states.clone()
            for first in range(0, len(sets), at_once):
                self._add(sets[first : first + at_once], states, changes)
            larger = self._one_more(sets[states[sets.level] <= MAX_STATES])
            number, next_number = (torch.bincount(group.level, minlength=self.num_levels) for group in (sets, larger))
            expected = next_number * (states - before) // number.clamp_min(1)
            states[(expected > 4 * MAX_STATES) | (next_number * self.mdp.num_cells > MOST_NUMBERS)] = MAX_STATES + 1
            sets = self._walked(larger[states[larger.level] <= MAX_STATES])
        return states, changes.cumsum(-1).amax(-1)

    def _distances(self) -> Tensor:
        """Return the moves from each place to each cell [b, places, cells], on ways that pass no coin or button."""
        mdp, cells = self.mdp, self.mdp.num_cells
        start = mdp.start[self.first : self.first + self.num_levels] % cells
        source = torch.cat((self.cell, start.unsqueeze(-1)), 1).reshape(-1)
        exists = torch.cat((self.exists, torch.ones_like(self.exists[:, :1])), 1).reshape(-1)
        distance = torch.full((len(source) * cells,), FAR, dtype=torch.int16, device=mdp.device)
        place = torch.empty_like(distance, dtype=torch.int64)
        rows = exists.nonzero().squeeze(-1)
        reached = rows * cells + source[rows]
        distance[reached] = 0
        for tick in range(1, mdp.max_time + 1):
            row = reached // cells
            first_spot = (self.first + row // (self.bits + 1)) * cells
            targets = mdp.goto.reshape(-1, NUM_ACTIONS)[first_spot + reached % cells]
            targets = (targets + (row * cells - first_spot).unsqueeze(-1)).reshape(-1)
            targets = targets[distance[targets] == FAR]
            # If several ways reach the same cell, keep one.
            number = torch.arange(len(targets), device=targets.device)
            place[targets] = number
            reached = targets[place[targets] == number]
            distance[reached] = tick
            spot = (self.first + reached // cells // (self.bits + 1)) * cells + reached % cells
            reached = reached[mdp.found[spot] == 0]
            if not len(reached):
                break
        return distance.reshape(self.num_levels, self.bits + 1, cells)

    def _add(self, sets: _Taken, states: Tensor, changes: Tensor) -> None:
        """Add the states with these sets to ``states``, and the change of their number at each tick to ``changes``."""
        arrival = self._earliest(sets, self.distance)
        has = self._has(sets.bits)
        remaining = (self.exists[sets.level] & ~has).nonzero()
        arrival[remaining[:, 0], self.cell[sets.level[remaining[:, 0]], remaining[:, 1]]] = FAR
        length = self._length(sets)
        arrival = torch.minimum(arrival, length.to(arrival.dtype).unsqueeze(-1))
        ticks = length.unsqueeze(-1) - arrival
        # Where a bump takes no time, each tick is a move from one colour of a chessboard to the other.
        ticks = torch.where(self.free_bumps[sets.level].unsqueeze(-1), (ticks + 1) // 2, ticks)
        outcomes = torch.where(has, self.outcomes[sets.level], 1).prod(-1)
        states.index_add_(0, sets.level, ticks.sum(-1) * outcomes)
        row = sets.level * changes.shape[1]
        flat = changes.view(-1)
        flat.index_add_(0, (row.unsqueeze(-1) + arrival).reshape(-1), outcomes.repeat_interleave(arrival.shape[1]))
        flat.index_add_(0, row + length, -outcomes * arrival.shape[1])

    def _one_more(self, sets: _Taken) -> _Taken:
        """Return the sets with one more object, taken while time is left afterwards; the agent is at its cell."""
        tick, length = self._earliest(sets, self.between), self._length(sets).unsqueeze(-1)
        possible = self.exists[sets.level] & ~self._has(sets.bits)
        possible &= (tick <= length) & (tick < length + self.delay[sets.level])
        before, thing = possible.nonzero().unbind(-1)
        key = (sets.level[before] << self.bits) | sets.bits[before] | (1 << thing)
        unique, row = key.unique(return_inverse=True)
        earliest = tick.new_full((len(unique), self.bits + 1), FAR).index_put((row, thing), tick[before, thing])
        return _Taken(unique >> self.bits, unique & ((1 << self.bits) - 1), earliest)

    def _walked(self, sets: _Taken) -> _Taken:
        """Return the sets with the ticks at which the agent can be back at the objects that it took earlier."""
        last, closed = self._length(sets).unsqueeze(-1), ~self._has(sets.bits)
        while len(sets):
            tick = self._earliest(sets, self.between)
            tick = tick.masked_fill(closed | (tick >= last), FAR)
            tick = torch.minimum(tick, sets.tick[:, :-1])
            if torch.equal(tick, sets.tick[:, :-1]):
                break
            sets.tick[:, :-1] = tick
        return sets

    def _earliest(self, sets: _Taken, distance: Tensor) -> Tensor:
        """Return the earliest ticks of arrival [G, ...], given the distances [b, places, ...] from each place."""
        tick = distance.new_full((len(sets), distance.shape[-1]), FAR)
        for place in range(self.bits + 1):
            way = sets.tick[:, place, None] + distance[sets.level, place]
            torch.minimum(tick, way, out=tick)
        return tick

    def _has(self, bits: Tensor) -> Tensor:
        """Return which objects are taken [G, bits]."""
        return (bits.unsqueeze(-1) >> torch.arange(self.bits, device=bits.device) & 1).bool()

    def _length(self, sets: _Taken) -> Tensor:
        """Return the trajectory-length if all buttons of the set work [G]."""
        return self.shutdown[sets.level] + (self._has(sets.bits) * self.delay[sets.level]).sum(-1)
