"""Sample mini-episodes of a policy to look at, one for each length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.algos.generators import Generators
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.rollout.play import PATIENCE, Act, sample_private_bits, ticks

LIKELY = 0.01
"""Lengths with a smaller probability are left out."""
AT_ONCE, BATCHES = 256, 8
"""Mini-episodes are played in batches until every likely length has been seen; one of 1 % is missed by chance 1e-9."""


class Moment(NamedTuple):
    """The state before an action, or at the end."""

    cell: tuple[int, int]
    taken: int
    time_left: int
    coins: float
    """The coins so far."""


@dataclass(frozen=True)
class Episode:
    """A mini-episode, moment by moment, of a length that the policy has with this probability."""

    length: int
    probability: float
    moments: list[Moment]


@torch.no_grad()
def sample_episodes(
    mdp: Mdp,
    observe: Observation,
    act: Act,
    probabilities: Mapping[int, float],
    *,
    private_bits: int,
    are_bits: bool,
    seed: int,
) -> list[Episode]:
    """Return a mini-episode on the first level for each length that is likely, shortest first.

    ``probabilities`` are those of the lengths, and ``act`` returns logits for observations and private bits.
    """
    wanted = {length: p for length, p in probabilities.items() if p > LIKELY}
    rng = Generators.of(torch.Generator(mdp.device).manual_seed(seed))
    episodes: dict[int, Episode] = {}
    for _ in range(BATCHES):
        if wanted.keys() == episodes.keys():
            break
        private = sample_private_bits(rng, AT_ONCE, private_bits, are_bits)
        for length, moments in _play(mdp, observe, act, private, rng, are_bits).items():
            if length in wanted:
                episodes.setdefault(length, Episode(length, wanted[length], moments))
    return [episodes[length] for length in sorted(episodes)]


def _play(
    mdp: Mdp, observe: Observation, act: Act, private: Tensor | None, rng: Generators, are_bits: bool
) -> dict[int, list[Moment]]:
    """Play a batch of mini-episodes on the first level; return the first of each length."""
    level = torch.zeros(AT_ONCE, dtype=torch.int64, device=mdp.device)
    moments: list[list[Moment]] = [[] for _ in range(AT_ONCE)]
    coins = [0.0] * AT_ONCE
    ended: dict[int, list[Moment]] = {}
    playing = ticks(mdp, observe, act, level, private, rng, are_bits=are_bits)
    for tick in islice(playing, PATIENCE * mdp.max_time):
        slots, before = tick.slot.tolist(), tick.before
        states = torch.stack((before.spot, before.taken, before.time_left), -1).tolist()
        for slot, (spot, taken, time_left) in zip(slots, states, strict=True):
            moments[slot].append(Moment(divmod(spot, mdp.width), taken, time_left, coins[slot]))
        for slot, coin in zip(slots, tick.step.coin.tolist(), strict=True):
            coins[slot] += coin
        last = mdp.advance(before.spot, before.taken, tick.action)
        for index in tick.step.mini_done.nonzero().flatten().tolist():
            end = Moment(divmod(int(last.spot[index]), mdp.width), int(last.taken[index]), 0, coins[slots[index]])
            ended.setdefault(int(tick.step.length[index]), [*moments[slots[index]], end])
    return ended
