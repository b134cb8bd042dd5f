"""The trajectory-lengths of a level and the best that can be collected in each: the paper's k and m.

Exact, by dynamic programming over the reachable states of the whole level set. Going forward, the largest
discounted total with which a state can be reached is all that has to be known of the way to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from envs.dynamics.mdp import NUM_ACTIONS, Mdp
from envs.exact.layers import MAX_STATES, Ends, Layer, walk
from envs.exact.state_count import estimate_size, parts
from envs.levels import LevelError

LEVELS_AT_ONCE = 1024
STATES_AT_ONCE = 1 << 19
"""States of one tick: more are held only where a single level has more."""


@dataclass(frozen=True)
class Optima:
    """What can be had in each level. Columns are its lengths, shortest first, padded with 0."""

    gamma: float
    lengths: Tensor
    """[B, K] trajectory-lengths that can be reached."""
    num_lengths: Tensor
    """[B] k, how many there are."""
    best_return: Tensor
    """[B, K] m(l), the largest γ-discounted total of coins of a trajectory of that length."""


def solve(mdp: Mdp, gamma: float = 1.0, *, allow_barren: bool = False) -> Optima:
    """Lengths and optima of every level of a set, for a discount γ in (0, 1].

    A level in which no coin can be reached is refused, unless ``allow_barren``.

    m(l) is the largest total of any trajectory that has length l with positive probability. That is the
    paper's maximum of E[C | L = l] over policies, also where buttons work by chance: a policy that plays
    the actions of that trajectory come what may collects the same coins at the same ticks, and how the
    buttons turn out decides only how long it goes on.
    """
    check_gamma(gamma)
    ends: list[tuple[Tensor, int]] = []
    totals: list[Tensor] = []
    for levels in _parts(mdp):
        for layer, best in _best_totals(mdp, gamma, levels):
            ends.append((layer.next_ends, layer.tick + 1))
            # A copy, so that the totals of the layer's states need not be kept with them.
            totals.append(best[layer.next_states :].clone())
    found = Ends(ends, mdp.num_levels)
    optima = Optima(gamma, found.lengths, found.num_lengths, found.table(torch.cat(totals)))
    if not allow_barren:
        _check_coins(mdp, optima)
    return optima


def check_gamma(gamma: float) -> None:
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma {gamma}; expected a discount above 0, at most 1")


def _parts(mdp: Mdp) -> list[range]:
    """Levels that are searched at once."""
    most = mdp.num_cells << mdp.num_objects
    if mdp.any_chance:  # each button can have worked or not
        most <<= max(len(level.buttons) for level in mdp.levels)
    at_once = min(LEVELS_AT_ONCE, STATES_AT_ONCE // most)
    if at_once >= LEVELS_AT_ONCE // 16:
        return [range(at, min(at + at_once, mdp.num_levels)) for at in range(0, mdp.num_levels, at_once)]
    sizes = estimate_size(mdp)
    check_searchable(mdp, sizes.states)
    return parts(mdp, sizes.width, STATES_AT_ONCE, LEVELS_AT_ONCE)


def check_searchable(mdp: Mdp, states: Tensor) -> None:
    """Refuse levels with more states [B] than can be gone through to find m(l)."""
    index = int(states.argmax())
    if states[index] > MAX_STATES:
        raise LevelError(
            f"{mdp.levels[index].place} has more than {MAX_STATES:,} reachable states (estimated), too many to find "
            "the most that can be collected in each trajectory-length, without which there is no usefulness; "
            "expected fewer coins and buttons, an earlier shutdown, or a smaller map"
        )


def _best_totals(mdp: Mdp, gamma: float, levels: range | None = None) -> Iterator[tuple[Layer, Tensor]]:
    """Each layer with the best total at each state and end of the layer after it."""
    best = torch.zeros(mdp.num_levels if levels is None else len(levels), dtype=torch.float64, device=mdp.device)
    for layer in walk(mdp, levels):
        total = (best.unsqueeze(-1) + gamma**layer.tick * layer.coin).unsqueeze(-1).expand(layer.target.shape)
        best = total.new_full((layer.next_size,), -torch.inf)
        best.scatter_reduce_(0, layer.target.reshape(-1), total.reshape(-1), "amax")
        yield layer, best
        best = best[: layer.next_states]


def _check_coins(mdp: Mdp, optima: Optima) -> None:
    barren = (optima.best_return == 0).all(-1)
    if barren.any():
        index = int(barren.nonzero()[0])
        raise LevelError(
            f"{mdp.levels[index].place}: no coin can be reached within {int(optima.lengths[index].max())} timesteps, "
            "the longest trajectory; expected at least one"
        )


def optimal_route(mdp: Mdp, index: int, length: int, gamma: float = 1.0) -> list[tuple[int, int]]:
    """One best way to spend a trajectory of that length in level ``index``: (row, column) after each tick.

    The start comes first. Where a button works by chance, the route is the lucky one.
    """
    check_gamma(gamma)
    steps = list(_best_totals(mdp, gamma, range(index, index + 1)))
    if length not in [layer.tick + 1 for layer, _ in steps if len(layer.next_ends)]:
        raise ValueError(f"{mdp.levels[index].place}: no trajectory has length {length}")
    before = [torch.zeros(1, dtype=torch.float64, device=mdp.device)] + [best for _, best in steps]
    route = []
    goal = steps[length - 1][0].next_states  # the one end of this layer
    for layer, best in reversed(steps[:length]):
        total = before[layer.tick][: len(layer.spot), None] + gamma**layer.tick * layer.coin
        achieves = (layer.target == goal) & (total == best[goal]).unsqueeze(-1)
        state, action, _ = achieves.nonzero()[0].tolist()
        route.append(int(_there(mdp, layer, state, action)))
        goal = state
    route.append(int(mdp.start[index]))
    return [divmod(spot - index * mdp.num_cells, mdp.width) for spot in reversed(route)]


def _there(mdp: Mdp, layer: Layer, state: int, action: int) -> Tensor:
    """The spot the action leads to; a free bump stands in for the first move (see `walk`)."""
    ways = mdp.goto.reshape(-1, NUM_ACTIONS)[layer.spot[state]]
    if layer.moving is not None and not layer.moving[state, action]:
        return ways[layer.moving[state].int().argmax()]
    return ways[action]
