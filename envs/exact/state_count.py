"""How many states a level can come to, told before any of them is unrolled.

A state is a cell, the things taken, and a tick. Who can be somewhere early can be there later, so what counts is the
earliest tick at which each cell can be reached with each set of things taken: there are as many states as ticks from
then to shutdown. That tick is found on the distances between the things of a level alone, for all orders of taking
them at once: the work is that of the sets that can be taken in time, not of the ticks in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from envs.dynamics.mdp import NUM_ACTIONS, Mdp
from envs.exact.layers import MAX_STATES

FAR = 1 << 13
"""Ticks to what cannot be reached: more than any trajectory has, and twice as many are still a 16-bit number."""
NUMBERS_AT_ONCE = 1 << 22
MOST_NUMBERS = 1 << 27
"""A level of which the sets of one size need more than this is taken to have more than MAX_STATES."""


@dataclass(frozen=True)
class Size:
    """Of B levels; never below the truth.

    Both are upper bounds. Each tick is taken to be possible once a state can be reached, though without a bump on the
    way it is only each second one; that makes them up to a quarter too large in the sets of `configs/levels/`, and a
    hundredth or two on average. On a clock that counts moves, the number of states is exact if every move can be taken
    back. Buttons that work by chance are taken to leave another time for each way they can turn out: a factor of at
    most 2 to the number of them.
    """

    states: Tensor
    """[B] reachable states that have time left; MAX_STATES + 1 where more than MAX_STATES are to be expected."""
    width: Tensor
    """[B] those of one tick, at most."""


def estimate_size(mdp: Mdp) -> Size:
    """The size of each level of a set."""
    at_once = max(1, NUMBERS_AT_ONCE // (mdp.num_cells * (mdp.num_objects + 1)))
    parts = [
        _Sets(mdp, range(first, min(first + at_once, mdp.num_levels))).count()
        for first in range(0, mdp.num_levels, at_once)
    ]
    states, width = (torch.cat(each).clamp_max(MAX_STATES + 1) for each in zip(*parts, strict=True))
    return Size(states, width)


def parts(mdp: Mdp, numbers: Tensor, at_most: float, levels_at_most: int | None = None) -> list[range]:
    """Consecutive levels that together have at most so much of ``numbers`` [B], or one level that has more alone."""
    keys = (mdp.num_cells * (mdp.max_time + 1)) << mdp.num_objects
    room = max(1, (1 << 61) // keys)  # `envs.exact.layers` numbers the states of all levels together
    levels_at_most = room if levels_at_most is None else min(room, levels_at_most)
    found, first, total = [], 0, 0
    for index, number in enumerate(numbers.tolist()):
        if index > first and (total + number > at_most or index - first == levels_at_most):
            found.append(range(first, index))
            first, total = index, 0
        total += number
    return [*found, range(first, len(numbers))]


@dataclass(frozen=True)
class _Taken:
    """G sets of things taken, each in a level."""

    level: Tensor
    """[G] counted from the first of the levels looked at."""
    bits: Tensor
    """[G]"""
    tick: Tensor
    """[G, places] the earliest tick at which one can be at each of them, with this set taken."""

    def __len__(self) -> int:
        return len(self.level)

    def __getitem__(self, index: Tensor | slice) -> _Taken:
        return _Taken(self.level[index], self.bits[index], self.tick[index])


class _Sets:
    """The sets of things that can be taken in some levels. Their *places* are the things' cells and the start."""

    def __init__(self, mdp: Mdp, levels: range) -> None:
        self.mdp, self.first, self.num_levels, self.bits = mdp, levels.start, len(levels), mdp.num_objects
        spots = slice(levels.start * mdp.num_cells, levels.stop * mdp.num_cells)
        found = mdp.found[spots]
        where = found.nonzero().squeeze(-1)
        thing = (where // mdp.num_cells, found[where].double().log2().long())
        nothing = found.new_zeros(len(levels), self.bits)
        self.exists = nothing.bool().index_put(thing, torch.ones_like(where, dtype=torch.bool))
        self.cell = nothing.index_put(thing, where % mdp.num_cells)
        """[b, bits]"""
        self.delay = nothing.index_put(thing, mdp.delay[spots][where])
        self.uncertain = nothing.index_put(thing, (mdp.chance[spots][where] < 1).long())
        self.shutdown = mdp.shutdown[levels.start : levels.stop]
        self.free_bumps = mdp.free_bumps[levels.start : levels.stop]
        self.distance = self._distances()
        self.between = self.distance.gather(2, self.cell.unsqueeze(1).expand(-1, self.bits + 1, -1))
        """[b, places, bits] moves from each place to each thing, past no other."""

    def count(self) -> tuple[Tensor, Tensor]:
        """[b] states of each level, and [b] those of one tick."""
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
            more = self._one_more(sets[states[sets.level] <= MAX_STATES])
            number, next_number = (torch.bincount(each.level, minlength=self.num_levels) for each in (sets, more))
            coming = next_number * (states - before) // number.clamp_min(1)
            states[(coming > 4 * MAX_STATES) | (next_number * self.mdp.num_cells > MOST_NUMBERS)] = MAX_STATES + 1
            sets = self._walked(more[states[more.level] <= MAX_STATES])
        return states, changes.cumsum(-1).amax(-1)

    def _distances(self) -> Tensor:
        """[b, places, cells] moves from each place to each cell, past nothing that could be taken."""
        mdp, cells = self.mdp, self.mdp.num_cells
        start = mdp.start[self.first : self.first + self.num_levels] % cells
        source = torch.cat((self.cell, start.unsqueeze(-1)), 1).reshape(-1)
        exists = torch.cat((self.exists, torch.ones_like(self.exists[:, :1])), 1).reshape(-1)
        distance = torch.full((len(source) * cells,), FAR, dtype=torch.int16, device=mdp.device)
        place = torch.empty_like(distance, dtype=torch.int64)
        there = exists.nonzero().squeeze(-1)
        reached = there * cells + source[there]
        distance[reached] = 0
        for tick in range(1, mdp.max_time + 1):
            row = reached // cells
            first_spot = (self.first + row // (self.bits + 1)) * cells
            ways = mdp.goto.reshape(-1, NUM_ACTIONS)[first_spot + reached % cells]
            ways = (ways + (row * cells - first_spot).unsqueeze(-1)).reshape(-1)
            ways = ways[distance[ways] == FAR]
            # Of those that have come to the same cell, one goes on.
            number = torch.arange(len(ways), device=ways.device)
            place[ways] = number
            reached = ways[place[ways] == number]
            distance[reached] = tick
            spot = (self.first + reached // cells // (self.bits + 1)) * cells + reached % cells
            reached = reached[mdp.found[spot] == 0]
            if not len(reached):
                break
        return distance.reshape(self.num_levels, self.bits + 1, cells)

    def _add(self, sets: _Taken, states: Tensor, changes: Tensor) -> None:
        """Count the states in which these things are taken; ``changes`` is by how many they are more at each tick."""
        arrival = self._earliest(sets, self.distance)
        has = self._has(sets.bits)
        left = (self.exists[sets.level] & ~has).nonzero()
        arrival[left[:, 0], self.cell[sets.level[left[:, 0]], left[:, 1]]] = FAR
        length = self._length(sets)
        arrival = torch.minimum(arrival, length.to(arrival.dtype).unsqueeze(-1))
        ticks = length.unsqueeze(-1) - arrival
        # Where a bump takes no time, each move goes from one colour of a chessboard to the other.
        ticks = torch.where(self.free_bumps[sets.level].unsqueeze(-1), (ticks + 1) // 2, ticks)
        outcomes = 1 << (has * self.uncertain[sets.level]).sum(-1)
        states.index_add_(0, sets.level, ticks.sum(-1) * outcomes)
        when = sets.level * changes.shape[1]
        flat = changes.view(-1)
        flat.index_add_(0, (when.unsqueeze(-1) + arrival).reshape(-1), outcomes.repeat_interleave(arrival.shape[1]))
        flat.index_add_(0, when + length, -outcomes * arrival.shape[1])

    def _one_more(self, sets: _Taken) -> _Taken:
        """The sets with one more thing, taken in time for another tick, and being where it was."""
        tick, length = self._earliest(sets, self.between), self._length(sets).unsqueeze(-1)
        good = self.exists[sets.level] & ~self._has(sets.bits)
        good &= (tick <= length) & (tick < length + self.delay[sets.level])
        before, thing = good.nonzero().unbind(-1)
        key = (sets.level[before] << self.bits) | sets.bits[before] | (1 << thing)
        unique, row = key.unique(return_inverse=True)
        earliest = tick.new_full((len(unique), self.bits + 1), FAR).index_put((row, thing), tick[before, thing])
        return _Taken(unique >> self.bits, unique & ((1 << self.bits) - 1), earliest)

    def _walked(self, sets: _Taken) -> _Taken:
        """With the ticks at which one can be back at the things that were taken earlier."""
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
        """[G, ...] when one can be somewhere, by distances [b, places, ...] from each place."""
        tick = distance.new_full((len(sets), distance.shape[-1]), FAR)
        for place in range(self.bits + 1):
            way = sets.tick[:, place, None] + distance[sets.level, place]
            torch.minimum(tick, way, out=tick)
        return tick

    def _has(self, bits: Tensor) -> Tensor:
        """[G, bits] which of the things are taken."""
        return (bits.unsqueeze(-1) >> torch.arange(self.bits, device=bits.device) & 1).bool()

    def _length(self, sets: _Taken) -> Tensor:
        """[G] the trajectory-length if all buttons of the set work."""
        return self.shutdown[sets.level] + (self._has(sets.bits) * self.delay[sets.level]).sum(-1)
