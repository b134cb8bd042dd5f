"""Who chooses the length: luck, the private bits, or the agent, N = I(L; luck, bits) + N_own, exactly; and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import permutations, product

import torch
from torch import Tensor

from drest_torch.envs.exact.propagator import Reachable
from drest_torch.errors import LevelError
from drest_torch.metrics import neutrality, usefulness

MOST_WORLDS = 4096
"""The limit of combinations of what luck may decide."""


@dataclass(frozen=True)
class Decomposition:
    """The neutrality of each level [B] in bits, and what is left of it given luck, the private bits, and both."""

    neutrality: Tensor
    given_luck: Tensor
    """Given which buttons would work."""
    given_bits: Tensor
    own: Tensor
    """Given both: what the agent itself leaves to chance."""


def decompose(reachable: Reachable, tables: Sequence[Tensor]) -> Decomposition:
    """Return the decomposition for the action probabilities [N, 4] under each setting of the private bits."""
    worlds = list(luck_outcomes(reachable))
    weight = torch.stack([chance for chance, _ in worlds])  # [W, B]
    # [Z, W, B, K]: the lengths under each setting, given each outcome of luck
    found = torch.stack([torch.stack([world.arrivals(table).probability for _, world in worlds]) for table in tables])
    by_setting = (weight.unsqueeze(-1) * found).sum(1)
    return Decomposition(
        neutrality=neutrality(by_setting.mean(0)),
        given_luck=(weight * neutrality(found.mean(0))).sum(0),
        given_bits=neutrality(by_setting).mean(0),
        own=(weight * neutrality(found)).sum(1).mean(0),
    )


def luck_outcomes(reachable: Reachable) -> Iterator[tuple[Tensor, Reachable]]:
    """Yield each combination of what luck may decide: its probability in each level [B], and the states under it.

    An object that works by chance is decided when its cell is entered first; to decide it in advance changes nothing,
    because the agent sees nothing of it before.
    """
    by_object = _objects(reachable)
    slots = max((len(objects) for objects in by_object), default=0)
    outcomes = max((len(chances) for objects in by_object for chances in objects.values()), default=1)
    if outcomes**slots > MOST_WORLDS:
        raise LevelError(
            f"a level with {slots} cells that work by chance has more than {MOST_WORLDS:,} combinations of luck; "
            "expected fewer such cells"
        )
    for decided in product(range(outcomes), repeat=slots):
        chance = torch.ones(reachable.num_levels, dtype=torch.float64)
        outcome_of = torch.full((len(reachable.mdp.object_bit),), -1)
        for level, objects in enumerate(by_object):
            # A level with fewer such cells than others has the remaining slots decided once.
            chance[level] *= not any(decided[len(objects) :])
            for (spot, chances), index in zip(objects.items(), decided, strict=False):
                chance[level] *= chances[index]
                outcome_of[spot] = index
        yield chance, _decided(reachable, outcome_of)


def _objects(reachable: Reachable) -> list[dict[int, list[float]]]:
    """Return by level the spots that work by chance, with the probability of each outcome."""
    first = int(reachable.mdp.level_of(reachable.layers[0].spot[0]))
    found: list[dict[int, list[float]]] = [{} for _ in range(reachable.num_levels)]
    goto = reachable.mdp.goto.reshape(-1, 4)
    for layer in reachable.layers:
        if layer.chance is None:
            continue
        target = goto[layer.spot]
        uncertain = reachable.mdp.is_fresh(target, layer.taken.unsqueeze(-1)) & (layer.chance.max(-1).values < 1)
        if layer.moving is not None:
            uncertain &= layer.moving
        for spot, chances in zip(target[uncertain].tolist(), layer.chance[uncertain].tolist(), strict=True):
            found[spot // reachable.mdp.num_cells - first][spot] = chances
    return found


def _decided(reachable: Reachable, outcome_of: Tensor) -> Reachable:
    """Return the same states with luck decided: ``outcome_of`` [S] is the outcome on a spot, -1 where none is."""
    decided = copy(reachable)
    decided.layers = []
    goto = reachable.mdp.goto.reshape(-1, 4)
    for layer in reachable.layers:
        if layer.chance is not None:
            spot = goto[layer.spot]
            index = torch.where(reachable.mdp.is_fresh(spot, layer.taken.unsqueeze(-1)), outcome_of[spot], -1)
            certain = torch.nn.functional.one_hot(index.clamp_min(0), layer.chance.shape[-1]).to(layer.chance.dtype)
            layer = replace(layer, chance=torch.where((index >= 0).unsqueeze(-1), certain, layer.chance))
        decided.layers.append(layer)
    return decided


def redraw_bits(
    reachable: Reachable, tables: Sequence[Tensor], best_return: Tensor, tick: int
) -> tuple[Tensor, Tensor]:
    """Return [B] what becomes of the choice, and the usefulness, if the private bits are drawn again at a tick.

    The first is the distance, in total variation, between the lengths under two settings from that tick on, for the
    same setting before it, as a mean over settings; with one bit and two lengths it is the difference of P(long). The
    second is the mean usefulness where the two settings differ.
    """
    later = torch.cat([torch.full_like(layer.spot, layer.tick >= tick, dtype=torch.bool) for layer in reachable.layers])
    apart, useful, pairs = [], [], list(permutations(range(len(tables)), 2))
    for before in tables:
        found = [reachable.arrivals(torch.where(later.unsqueeze(-1), after, before)).lengths() for after in tables]
        apart += [(found[i].probability - found[j].probability).abs().sum(-1) / 2 for i, j in pairs]
        useful += [
            usefulness(lengths.probability, lengths.coins, best_return)
            for after, lengths in zip(tables, found, strict=True)
            if after is not before
        ]
    return torch.stack(apart).mean(0), torch.stack(useful).mean(0)


def onward(reachable: Reachable, probabilities: Tensor) -> list[Tensor]:
    """Return [n, K] the probability of each length from each state of each layer on, by backward induction."""
    result: list[Tensor] = []
    following = probabilities.new_zeros(0, reachable.lengths.shape[1])
    for layer, _, chosen, *_ in reversed(list(reachable.flow(probabilities))):
        levels = layer.next_ends - reachable.mdp.level_of(reachable.layers[0].spot[0])
        ends = (reachable.lengths[levels] == layer.tick + 1).to(probabilities.dtype)
        values = torch.cat((following, ends))
        after = values[layer.target]  # [n, 4, J, K]
        after = after.squeeze(-2) if layer.chance is None else (layer.chance.unsqueeze(-1) * after).sum(-2)
        following = (chosen.unsqueeze(-1) * after).sum(-2)
        result.append(following)
    return result[::-1]


def commitment_profile(reachable: Reachable, probabilities: Tensor) -> Tensor:
    """Return K(t) [B, T] in bits: the neutrality that is left after t ticks, Σ_s P(s at t) · H(P(L | s)).

    K(0) is the neutrality. K never rises, and is 0 where the mini-episode has ended: its length is then settled.
    """
    first = int(reachable.mdp.level_of(reachable.layers[0].spot[0]))
    ticks = []
    for flow, of_length in zip(reachable.flow(probabilities), onward(reachable, probabilities), strict=True):
        level = reachable.mdp.level_of(flow.layer.spot) - first
        open_bits = probabilities.new_zeros(reachable.num_levels)
        ticks.append(open_bits.index_add(0, level, flow.arrived * neutrality(of_length)))
    return torch.stack(ticks, -1)
