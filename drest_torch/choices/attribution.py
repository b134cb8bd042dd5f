"""Exact attribution of neutrality to luck, private bits and the policy: N = I(L; luck, bits) + N_own."""

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

MAX_OUTCOMES = 4096
"""Largest number of combined outcomes of luck."""


@dataclass(frozen=True)
class Decomposition:
    """Neutrality of each level [B] in bits, unconditional and given luck, the private bits, or both."""

    neutrality: Tensor
    given_luck: Tensor
    """Neutrality given which buttons would work."""
    given_bits: Tensor
    given_both: Tensor
    """The randomness of the policy itself."""


def decompose(reachable: Reachable, tables: Sequence[Tensor]) -> Decomposition:
    """Decompose neutrality for the action probabilities [N, 4] under each setting of the private bits."""
    outcomes = list(luck_outcomes(reachable))
    weight = torch.stack([chance for chance, _ in outcomes])  # [W, B]
    lengths = []
    for table in tables:
        lengths.append(torch.stack([states.arrivals(table).probability for _, states in outcomes]))
    by_setting_and_luck = torch.stack(lengths)  # [Z, W, B, K]
    by_setting = (weight.unsqueeze(-1) * by_setting_and_luck).sum(1)
    return Decomposition(
        neutrality=neutrality(by_setting.mean(0)),
        given_luck=(weight * neutrality(by_setting_and_luck.mean(0))).sum(0),
        given_bits=neutrality(by_setting).mean(0),
        given_both=(weight * neutrality(by_setting_and_luck)).sum(1).mean(0),
    )


def luck_outcomes(reachable: Reachable) -> Iterator[tuple[Tensor, Reachable]]:
    """Yield each combined outcome of luck: its probability in each level [B], and the states given this outcome.

    The outcome of an object that works by chance is drawn when its cell is first entered. The agent observes nothing
    of it before, so drawing it in advance is equivalent.
    """
    by_object = _uncertain_objects(reachable)
    slots = max((len(objects) for objects in by_object), default=0)
    outcomes = max((len(chances) for objects in by_object for chances in objects.values()), default=1)
    if outcomes**slots > MAX_OUTCOMES:
        raise LevelError(
            f"a level with {slots} cells that work by chance has more than {MAX_OUTCOMES:,} combinations of luck; "
            "expected fewer such cells"
        )
    for decided in product(range(outcomes), repeat=slots):
        chance = torch.ones(reachable.num_levels, dtype=torch.float64)
        outcome_of = torch.full((len(reachable.mdp.object_bit),), -1)
        for level, objects in enumerate(by_object):
            # A level with fewer such cells than others counts one outcome of the remaining slots.
            chance[level] *= not any(decided[len(objects) :])
            for (spot, chances), index in zip(objects.items(), decided, strict=False):
                chance[level] *= chances[index]
                outcome_of[spot] = index
        yield chance, _given_outcome(reachable, outcome_of)


def _uncertain_objects(reachable: Reachable) -> list[dict[int, list[float]]]:
    """Return by level the spots that work by chance, with the probability of each outcome."""
    first = int(reachable.mdp.level_of(reachable.layers[0].spot[0]))
    objects: list[dict[int, list[float]]] = [{} for _ in range(reachable.num_levels)]
    goto = reachable.mdp.goto.reshape(-1, 4)
    for layer in reachable.layers:
        if layer.chance is None:
            continue
        target = goto[layer.spot]
        uncertain = reachable.mdp.is_fresh(target, layer.taken.unsqueeze(-1)) & (layer.chance.max(-1).values < 1)
        if layer.moving is not None:
            uncertain &= layer.moving
        for spot, chances in zip(target[uncertain].tolist(), layer.chance[uncertain].tolist(), strict=True):
            objects[spot // reachable.mdp.num_cells - first][spot] = chances
    return objects


def _given_outcome(reachable: Reachable, outcome_of: Tensor) -> Reachable:
    """Return the states given the outcome of luck on each spot, ``outcome_of`` [S]; −1 marks spots without luck."""
    result = copy(reachable)
    result.layers = []
    goto = reachable.mdp.goto.reshape(-1, 4)
    for layer in reachable.layers:
        if layer.chance is not None:
            spot = goto[layer.spot]
            index = torch.where(reachable.mdp.is_fresh(spot, layer.taken.unsqueeze(-1)), outcome_of[spot], -1)
            certain = torch.nn.functional.one_hot(index.clamp_min(0), layer.chance.shape[-1]).to(layer.chance.dtype)
            layer = replace(layer, chance=torch.where((index >= 0).unsqueeze(-1), certain, layer.chance))
        result.layers.append(layer)
    return result


def redraw_bits(
    reachable: Reachable, tables: Sequence[Tensor], best_return: Tensor, tick: int
) -> tuple[Tensor, Tensor]:
    """Return [B] the influence on the length of redrawing the private bits at a tick, and the usefulness with it.

    The influence is the total variation distance between the lengths under two settings from that tick on, for the
    same setting before it, averaged over settings. With one bit and two lengths it is the difference of P(long).
    Usefulness is averaged over cases in which the two settings differ.
    """
    later = torch.cat([torch.full_like(layer.spot, layer.tick >= tick, dtype=torch.bool) for layer in reachable.layers])
    pairs = list(permutations(range(len(tables)), 2))
    distances, useful = [], []
    for before in tables:
        outcomes = [reachable.arrivals(torch.where(later.unsqueeze(-1), after, before)).lengths() for after in tables]
        for i, j in pairs:
            distances.append((outcomes[i].probability - outcomes[j].probability).abs().sum(-1) / 2)
        for after, lengths in zip(tables, outcomes, strict=True):
            if after is not before:
                useful.append(usefulness(lengths.probability, lengths.coins, best_return))
    return torch.stack(distances).mean(0), torch.stack(useful).mean(0)


def lengths_from_states(reachable: Reachable, probabilities: Tensor) -> list[Tensor]:
    """Return [n, K] the probability of each length from each state of each layer, by backward induction."""
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
    """Return K(t) [B, T] in bits: the neutrality that remains after t ticks, Σ_s P(s at t) · H(P(L | s)).

    K(0) is the neutrality. K never rises, and is 0 once the mini-episode has ended.
    """
    first = int(reachable.mdp.level_of(reachable.layers[0].spot[0]))
    ticks = []
    conditional = lengths_from_states(reachable, probabilities)
    for flow, lengths in zip(reachable.flow(probabilities), conditional, strict=True):
        level = reachable.mdp.level_of(flow.layer.spot) - first
        remaining = probabilities.new_zeros(reachable.num_levels)
        ticks.append(remaining.index_add(0, level, flow.arrived * neutrality(lengths)))
    return torch.stack(ticks, -1)
