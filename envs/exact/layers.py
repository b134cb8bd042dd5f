"""The reachable states of a level set, layer by layer: layer t holds the states after t ticks.

The solver and the propagator walk these layers forward. Arrivals at the same state are merged, so the cost grows with
the number of states, not of trajectories. Within a layer the states with time left come first. They are followed by one
*end* for each level that can end at this tick, so the layer of an end is its trajectory-length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Arrival, Mdp
from drest_torch.envs.levels import LevelError

MAX_STATES = 200_000_000
"""The maximum number of states of a level set; larger sets are refused."""


@dataclass(frozen=True)
class StateLayer:
    """The n states with time left after ``tick`` ticks, and the results of their actions.

    J is the number of outcomes of an action (`Mdp.num_outcomes`): 1 without luck, 2 if a button of the set works by
    chance, and more with lotteries.
    """

    tick: int
    spot: Tensor
    """[n]"""
    taken: Tensor
    """[n]"""
    time_left: Tensor
    """[n]"""
    target: Tensor
    """[n, 4, J] index into the next layer, whose ends come after its states."""
    chance: Tensor | None
    """[n, 4, J] probability of the outcome given the action; None if J is 1."""
    moving: Tensor | None
    """[n, 4] False for a bump that takes no time and therefore has no successor; None if there is no such bump."""
    coin: Tensor
    """[n, 4, 1] value of the coin collected, or [n, 4, J] if it can depend on luck."""
    next_states: int
    """Number of states with time left in the next layer."""
    next_ends: Tensor
    """[e] levels that can end at the next tick, in the order of the ends."""

    @property
    def next_lengths(self) -> Tensor:
        """The trajectory-length of each of ``next_ends``."""
        return torch.full_like(self.next_ends, self.tick + 1)

    @property
    def next_size(self) -> int:
        return self.next_states + len(self.next_ends)


def walk(mdp: Mdp, levels: range) -> Iterator[StateLayer]:
    """Yield the layers of these levels, each computed from its predecessor."""
    spot = mdp.start[levels.start : levels.stop]
    taken = torch.zeros_like(spot)
    time_left = mdp.shutdown[levels.start : levels.stop]
    tick, total = 0, 0
    while len(spot):
        total += len(spot)
        if total > MAX_STATES:
            raise LevelError(
                f"{mdp.levels[int(mdp.level_of(spot[0]))].place} and the levels beside it have more than "
                f"{MAX_STATES:,} reachable states, {total:,} within {tick} ticks; expected a smaller set or "
                "fewer coins and buttons for exact work"
            )
        arrival, then_left, chance, moving = _outcomes(mdp, spot, taken, time_left)
        representative, target, states = _merge(mdp, arrival, then_left, levels)
        next_spot = arrival.spot.reshape(-1)[representative]
        yield StateLayer(
            tick=tick,
            spot=spot,
            taken=taken,
            time_left=time_left,
            target=target,
            chance=chance,
            moving=moving,
            coin=arrival.coin if mdp.has_lotteries else arrival.coin[..., :1],
            next_states=states,
            next_ends=mdp.level_of(next_spot[states:]),
        )
        spot = next_spot[:states]
        taken = arrival.taken.reshape(-1)[representative[:states]]
        time_left = then_left.reshape(-1)[representative[:states]]
        tick += 1


def _outcomes(
    mdp: Mdp, spot: Tensor, taken: Tensor, time_left: Tensor
) -> tuple[Arrival, Tensor, Tensor | None, Tensor | None]:
    """Return the arrivals after each action, the time left [n, 4, J], their chances, and the actions that take time."""
    outcomes = mdp.num_outcomes
    shape = (len(spot), NUM_ACTIONS, outcomes)
    action = torch.arange(NUM_ACTIONS, device=mdp.device)
    moving = None
    if mdp.any_free_bumps:
        goto = mdp.goto.reshape(-1, NUM_ACTIONS)[spot]
        moving = (goto != spot.unsqueeze(-1)) | ~mdp.free_bumps[mdp.level_of(spot)].unsqueeze(-1)
        # A free bump has no successor. Its entries repeat a move and get no probability.
        action = torch.where(moving, action, moving.int().argmax(-1, keepdim=True)).unsqueeze(-1).expand(shape)
    else:
        action = action.unsqueeze(-1).expand(shape)
    spot, taken, time_left = (value[:, None, None].expand(shape) for value in (spot, taken, time_left))
    luck = chance = None
    if mdp.any_chance:
        target = mdp.goto[(spot * NUM_ACTIONS + action)[..., 0]]
        fresh = mdp.is_fresh(target, taken[..., 0]).unsqueeze(-1)
        is_first = torch.arange(outcomes, device=mdp.device) == 0
        luck, chance = mdp.outcomes.luck[target], torch.where(fresh, mdp.outcomes.chance[target], is_first)
    arrival = mdp.advance(spot, taken, action, luck)
    time_left = mdp.time_after(time_left, arrival._replace(ticks=1))
    if chance is not None:
        # An outcome of chance 0 repeats the first.
        time_left = torch.where(chance == 0, time_left[..., :1], time_left)
    return arrival, time_left, chance, moving


def _merge(mdp: Mdp, arrival: Arrival, time_left: Tensor, levels: range) -> tuple[Tensor, Tensor, int]:
    """Merge arrivals at the same state.

    Return one arrival for each state of the next layer (those with time left, then the ends), the index of the state
    for each arrival, and the number of states with time left.
    """
    bits = mdp.num_objects
    # Without chance, the tick and the pressed buttons determine the time left, so the key needs no time.
    times = mdp.max_time + 1 if mdp.any_chance else 1
    ended = time_left == 0
    key = (arrival.spot - levels.start * mdp.num_cells) * times
    if times > 1:
        key = key + time_left
    key = (key << bits) | arrival.taken
    first_end = (len(levels) * mdp.num_cells * times) << bits
    if first_end + len(levels) >= 1 << 62:
        raise LevelError(
            f"{len(levels)} levels of {mdp.num_cells} cells with up to {bits} coins and buttons are too many to "
            "number their states; expected a smaller set"
        )
    key = torch.where(ended, first_end + mdp.level_of(arrival.spot) - levels.start, key)
    unique, target = _unique(key.reshape(-1), first_end + len(levels))
    representative = torch.empty_like(unique).scatter_(0, target, torch.arange(len(target), device=mdp.device))
    states = int(torch.searchsorted(unique, first_end))
    return representative, target.reshape(key.shape), states


def _unique(key: Tensor, space: int) -> tuple[Tensor, Tensor]:
    """Return the sorted distinct keys and the index of each key among them; keys lie in [0, space)."""
    if space > 16 * len(key):
        return torch.unique(key, return_inverse=True)
    used = torch.zeros(space, dtype=torch.bool, device=key.device)
    used[key] = True
    index = used.cumsum(0) - 1
    return used.nonzero().squeeze(-1), index[key]


class LevelEnds:
    """The ends of levels, arranged level by level in the order of their length.

    ``level`` and ``length`` [E] belong to the ends; levels are counted from 0.
    """

    def __init__(self, level: Tensor, length: Tensor, num_levels: int) -> None:
        self.num_lengths = torch.bincount(level, minlength=num_levels)
        order = (level * (int(length.max()) + 1) + length).sort().indices
        before = self.num_lengths.cumsum(0) - self.num_lengths
        column = torch.empty_like(level)
        column[order] = torch.arange(len(level), device=level.device) - before[level[order]]
        self._place = (level, column)
        self._shape = (num_levels, int(self.num_lengths.max()))
        self.lengths = self.table(length)

    def table(self, values: Tensor) -> Tensor:
        """Return a table [B, K] of the values, by the level and the length of their ends.

        Entries without an end are 0.
        """
        return values.new_zeros(self._shape).index_put(self._place, values)
