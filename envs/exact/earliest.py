"""Exact, undiscounted properties of levels: lengths, optima, slack, distance to a button, number of states.

The filters of generated levels need them, and so does the solver without a discount. Discounted values and the
probabilities of a policy depend on the time, so the solver and the propagator follow every tick for them. These
properties do not: an agent that reaches a cell early can also be there later, by moving back and forth between the last
two cells, or by bumping if there is no way back. The earliest arrival at each combination of a cell and a set of taken
objects is therefore enough, at a fraction of the cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Arrival, Mdp
from drest_torch.envs.exact.layers import MAX_STATES, LevelEnds

MAX_TABLE = 1 << 24
"""The maximum number of entries in the table of states; larger sets are searched in parts."""
UNLUCKY = 1 - 2.0**-53
"""The largest number below 1: with this luck a button works only if its chance is 1."""
MOST_PAIRS = 1 << 23
"""The maximum number of new pairs of a cell and a set at one tick; a level that exceeds it counts as having more than
MAX_STATES states."""
MIN_RATIO = 1 + 1e-12
"""The factor by which a total must exceed another to count as larger: floating-point sums depend on their order."""


@dataclass(frozen=True)
class Properties:
    """The properties of B levels. The columns are the lengths of a level, shortest first, padded with 0."""

    num_lengths: Tensor
    """[B] k, the number of trajectory-lengths."""
    lengths: Tensor
    """[B, K] the trajectory-lengths."""
    best_return: Tensor
    """[B, K] m(l), the largest total of coins of a trajectory of that length."""
    slack: Tensor
    """[B, K] ticks left after the shortest trajectory that collects m(l) and presses the buttons for the length; all
    ticks if m(l) is 0."""

    @property
    def ratio(self) -> Tensor:
        """[B] The ratio m(longest) / m(shortest): infinite if only the longest has a coin, NaN if neither does."""
        last = (self.num_lengths - 1).unsqueeze(-1)
        return self.best_return.gather(-1, last).squeeze(-1) / self.best_return[:, 0]

    @property
    def with_coin(self) -> Tensor:
        """[B] The number of lengths with a coin."""
        return (self.best_return > 0).sum(-1)


def button_distance(mdp: Mdp) -> Tensor:
    """Return the moves [B] from the start to the nearest button or lottery with a delay; 0 if none is reachable."""
    num_levels = len(mdp.start)
    is_button = (mdp.outcomes.delay != 0).reshape(-1, len(mdp.object_bit)).any(0).reshape(num_levels, -1)
    reached = torch.zeros(len(mdp.goto) // NUM_ACTIONS, dtype=torch.bool)
    reached[mdp.start] = True
    distance = torch.zeros(num_levels, dtype=torch.int64)
    goto = mdp.goto.reshape(-1, NUM_ACTIONS)
    for tick in range(1, int(mdp.shutdown.max()) + 1):
        reached = reached.index_fill(0, goto[reached].reshape(-1), True)
        pressed = (reached.reshape(num_levels, -1) & is_button).any(-1)
        distance.masked_fill_(pressed & (distance == 0) & (mdp.shutdown >= tick), tick)
    return distance


def fits_table(mdp: Mdp) -> bool:
    """Return whether the states of each level fit into the table, where this search is the fastest."""
    return (mdp.num_cells * (mdp.max_time + 1 if mdp.any_chance else 1)) << mdp.num_objects <= MAX_TABLE


def properties(mdp: Mdp) -> Properties:
    """Return the properties of every level of a set (on the CPU, in double precision)."""
    num_levels = len(mdp.start)
    longest = int((mdp.shutdown + mdp.delay.reshape(num_levels, -1).sum(-1)).max())
    bits = int(mdp.object_bit.max()).bit_length()
    times = longest + 1 if mdp.any_chance else 1  # without chance, the taken objects determine the length
    at_once = max(1, MAX_TABLE // ((mdp.num_cells * times) << bits))
    parts = [
        _search(mdp, range(first, min(first + at_once, num_levels)), longest, times, bits)
        for first in range(0, num_levels, at_once)
    ]
    best, since = (torch.cat(tables) for tables in zip(*parts, strict=True))
    # Keep only the lengths of each level.
    level, length = (best > -torch.inf).nonzero(as_tuple=True)
    ends = LevelEnds(level, length, num_levels)
    best, since = best[level, length], since[level, length]
    slack = torch.where(best > 0, length - since, length)
    return Properties(ends.num_lengths, ends.lengths, ends.table(best), ends.table(slack))


def _search(mdp: Mdp, levels: range, longest: int, times: int, bits: int) -> tuple[Tensor, Tensor]:
    """Return the largest total of each length, and the first tick at which it is reached: [n, longest + 1] each.

    The total is -inf for a length without a trajectory.
    """
    first_spot = levels.start * mdp.num_cells
    best = torch.full((len(levels) * (longest + 1),), -torch.inf, dtype=torch.float64)
    since = torch.zeros(best.shape, dtype=torch.int64)
    visited = VisitedStates((len(levels) * mdp.num_cells * times) << bits)
    luck = torch.tensor([0.0, UNLUCKY], dtype=torch.float64) if mdp.any_chance else None
    action = torch.arange(NUM_ACTIONS).reshape(1, -1, 1)
    # The start is not a visited state, because the agent may be unable to return to it without taking an object.
    spot, length = mdp.start[levels.start : levels.stop], mdp.shutdown[levels.start : levels.stop]
    taken, total = torch.zeros_like(spot), torch.zeros(len(spot), dtype=torch.float64)
    tick = 0
    while len(spot):
        tick += 1
        shape = (len(spot), NUM_ACTIONS, 1 if luck is None else 2)
        spot, taken = (value.reshape(-1, 1, 1).expand(shape) for value in (spot, taken))
        arrival = mdp.advance(spot, taken, action.expand(shape), luck)
        then_length = length.reshape(-1, 1, 1) + arrival.delay
        then_total = total.reshape(-1, 1, 1) + arrival.coin
        key = arrival.spot - first_spot
        if times > 1:
            key = key * times + then_length
        key = ((key << bits) | arrival.taken).reshape(-1)
        new, waits = _new_arrivals(mdp, visited, key, spot, arrival)
        spot, taken, length, total = select_flat(new, arrival.spot, arrival.taken, then_length, then_total)
        column = (mdp.level_of(spot) - levels.start) * (longest + 1) + length
        improves = total > MIN_RATIO * best.index_select(0, column)
        if waits is not None:
            improves &= waits | (length == tick)
        better = improves.nonzero().squeeze(-1)
        column, better_total = select_flat(better, column, total)
        best.scatter_reduce_(0, column, better_total, "amax")
        since[column] = tick
        alive = (length > tick).nonzero().squeeze(-1)
        spot, taken, length, total = select_flat(alive, spot, taken, length, total)
    return best.reshape(len(levels), -1), since.reshape(len(levels), -1)


def _new_arrivals(
    mdp: Mdp, visited: VisitedStates, key: Tensor, spot: Tensor, arrival: Arrival
) -> tuple[Tensor, Tensor | None]:
    """Return the indices of the arrivals to continue from, and whether the agent can wait there (None: always).

    The agent can wait where bumps take time, or where the way back is open. Elsewhere the arrival counts only at this
    tick.
    """
    if isinstance(arrival.ticks, int):
        return visited.new(key, None), None
    moved = arrival.ticks.reshape(-1) > 0
    back = (mdp.goto.reshape(-1, NUM_ACTIONS)[arrival.spot] == spot.unsqueeze(-1)).any(-1)
    waits = (back | ~mdp.free_bumps[mdp.level_of(spot)]).reshape(-1)
    lasting = visited.new(key, moved & waits)
    passing = (moved & ~waits).nonzero().squeeze(-1)
    return torch.cat((lasting, passing)), torch.cat((torch.ones_like(lasting), torch.zeros_like(passing))).bool()


def select_flat(index: Tensor, *values: Tensor) -> list[Tensor]:
    """Return ``value.reshape(-1)[index]`` for each value, three times as fast on a CPU as indexing."""
    return [value.reshape(-1).index_select(0, index) for value in values]


class VisitedStates:
    """The states reached so far, as keys in [0, space)."""

    def __init__(self, space: int) -> None:
        self._place = torch.full((space,), -1, dtype=torch.int32) if space <= MAX_TABLE else None
        self._keys = torch.zeros(0, dtype=torch.int64)

    def new(self, key: Tensor, counts: Tensor | None) -> Tensor:
        """Return indices into ``key``: one arrival at each new state, among the arrivals where ``counts`` is true."""
        if self._place is None:  # too many states for a table
            fresh = ~torch.isin(key, self._keys)
        else:
            fresh = self._place.index_select(0, key) < 0
        if counts is not None:
            fresh &= counts
        index = fresh.nonzero().squeeze(-1)
        key = key.index_select(0, index)
        if self._place is None:
            unique, inverse = torch.unique(key, return_inverse=True)
            self._keys = torch.cat((self._keys, unique))
            return index[torch.zeros_like(unique).scatter_reduce_(0, inverse, torch.arange(len(key)), "amax")]
        number = torch.arange(len(key), dtype=torch.int32)
        self._place.scatter_reduce_(0, key, number, "amax")  # the last arrival at a state stays
        return index.index_select(0, (self._place.index_select(0, key) == number).nonzero().squeeze(-1))


# ------------------------------------------------------------------------------------------- numbers of states


@dataclass(frozen=True)
class StateCounts:
    """Upper bounds on the sizes of B levels.

    A reachable state is assumed to be possible at every later tick, although an agent that does not bump into walls
    reaches it only at every second tick. In the sets of `configs/levels/` the bounds are 1 or 2 % too large on average,
    and at most a quarter. On a clock that counts moves the number of states is exact if every move can be undone. Each
    combination of outcomes of buttons and lotteries is assumed to leave a different time: n buttons that work by chance
    are a factor of at most 2^n, and a lottery of J outcomes a factor of J.
    """

    states: Tensor
    """[B] the number of reachable states with time left; MAX_STATES + 1 for more than MAX_STATES."""
    width: Tensor
    """[B] the largest number of states of one tick."""


def estimate_size(mdp: Mdp) -> StateCounts:
    """Return upper bounds on the size of each level of a set."""
    device, mdp = mdp.device, mdp.to("cpu")
    at_once = max(1, MAX_TABLE // max(mdp.num_cells << mdp.num_objects, mdp.max_time))
    ranges = [range(first, min(first + at_once, mdp.num_levels)) for first in range(0, mdp.num_levels, at_once)]
    counts = zip(*(_count(mdp, levels) for levels in ranges), strict=True)
    states, width = (torch.cat(numbers).clamp_max(MAX_STATES + 1).to(device) for numbers in counts)
    return StateCounts(states, width)


def _count(mdp: Mdp, levels: range) -> tuple[Tensor, Tensor]:
    """Return the number of states of each level [b], and the largest number at one tick [b]."""
    bits, first_spot, goto = mdp.num_objects, levels.start * mdp.num_cells, mdp.goto.reshape(-1, NUM_ACTIONS)
    most_delay = mdp.outcomes.delay.reshape(-1, len(mdp.object_bit)).amax(0).clamp_min(0)
    states = torch.zeros(len(levels), dtype=torch.int64)
    changes = states.new_zeros(len(levels), mdp.max_time + 1)
    visited = VisitedStates((len(levels) * mdp.num_cells) << bits)
    # The pairs of a cell and a set that are new at this tick, with the trajectory-length if all buttons of the set
    # work, and the number of outcomes of its objects.
    spot, length = mdp.start[levels.start : levels.stop], mdp.shutdown[levels.start : levels.stop]
    taken, outcomes, tick = torch.zeros_like(spot), torch.ones_like(spot), 0
    visited.new((spot - first_spot) << bits, None)
    while len(spot):
        level = mdp.level_of(spot)
        ticks = length - tick
        # If bumps take no time, each tick is a move from one colour of a chessboard to the other.
        ticks = torch.where(mdp.free_bumps[level], (ticks + 1) // 2, ticks)
        level = level - levels.start
        states.index_add_(0, level, ticks * outcomes)
        changes[:, tick].index_add_(0, level, outcomes)
        changes.view(-1).index_add_(0, level * changes.shape[1] + length, -outcomes)
        states[torch.bincount(level, minlength=len(levels)) > MOST_PAIRS] = MAX_STATES + 1
        goes_on = (states[level] <= MAX_STATES).nonzero().squeeze(-1)
        spot, taken, length, outcomes = select_flat(goes_on, spot, taken, length, outcomes)
        tick += 1
        target = goto[spot]
        taken, length, outcomes = (values.unsqueeze(-1) for values in (taken, length, outcomes))
        fresh = mdp.is_fresh(target, taken)
        taken = taken | mdp.object_bit[target]
        length = length + most_delay[target] * fresh
        outcomes = outcomes * torch.where(fresh, mdp.outcomes.number[target], 1)
        key = ((target - first_spot) << bits) | taken
        new = visited.new(key.reshape(-1), (length > tick).reshape(-1))
        spot, taken, length, outcomes = select_flat(new, target, taken, length, outcomes)
    return states, changes.cumsum(-1).amax(-1)


def parts(mdp: Mdp, numbers: Tensor, at_most: float, levels_at_most: int | None = None) -> list[range]:
    """Split levels into consecutive ranges whose ``numbers`` [B] sum to at most ``at_most``.

    A level with a larger number gets its own range.
    """
    keys = (mdp.num_cells * (mdp.max_time + 1)) << mdp.num_objects
    levels_that_fit = max(
        1, (1 << 61) // keys
    )  # `drest_torch.envs.exact.layers` numbers the states of all levels together
    levels_at_most = levels_that_fit if levels_at_most is None else min(levels_that_fit, levels_at_most)
    ranges, first, total = [], 0, 0
    for index, number in enumerate(numbers.tolist()):
        if index > first and (total + number > at_most or index - first == levels_at_most):
            ranges.append(range(first, index))
            first, total = index, 0
        total += number
    return [*ranges, range(first, len(numbers))]
