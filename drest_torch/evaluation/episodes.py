"""Sample mini-episodes of a policy to look at, one for each length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.moments import Episode, Moment
from drest_torch.envs.exact.solver import Optima
from drest_torch.gridworlds import Gridworlds

LIKELY = 0.01
"""Lengths with a smaller probability are left out."""
AT_ONCE, BATCHES = 256, 8
"""Mini-episodes are played in batches until every likely length has been seen; one of 1 % is missed by chance 1e-9."""


def sample_episodes(
    level_set: Any, policy: Any, probabilities: Mapping[int, float], *, greedy: bool, seed: int
) -> list[Episode]:
    """Return a mini-episode on the first level for each length that is likely, shortest first.

    ``level_set`` is an `ExactEvaluator`, and ``probabilities`` are those of the lengths.
    """
    mdp, optima = level_set.mdp, level_set.optima
    wanted = {length: p for length, p in probabilities.items() if p > LIKELY}
    rng = torch.Generator(mdp.device).manual_seed(seed)
    worlds = Gridworlds.on(mdp, optima, level_set.observe, slots=AT_ONCE, private_bits=policy.private_bits)
    worlds.base.play_on(torch.zeros(AT_ONCE, dtype=torch.int64))
    collector = worlds.collector(worlds.actor(policy), greedy=greedy)
    episodes: dict[int, Episode] = {}
    for _ in range(BATCHES):
        if wanted.keys() == episodes.keys():
            break
        for length, moments in _mini_episodes(mdp, optima, collector.collect(rng)).items():
            if length in wanted:
                episodes.setdefault(length, Episode(length, wanted[length], moments))
    return [episodes[length] for length in sorted(episodes)]


def _mini_episodes(mdp: Mdp, optima: Optima, batch: TensorDictBase) -> dict[int, list[Moment]]:
    """Return the first mini-episode of each length of a batch on the first level."""
    found: dict[int, list[Moment]] = {}
    for slot, time in batch["next", "mini_done"].squeeze(-1).nonzero().tolist():
        length = int(optima.lengths[0, batch["next", "mini_len"][slot, time, 0]])
        if length in found:
            continue
        steps = batch[slot, : time + 1]
        spot, taken, time_left = mdp.states.of(steps["state"])
        coins = steps["next", "reward"].squeeze(-1).cumsum(0).tolist()
        last = mdp.advance(spot[-1:], taken[-1:], steps["action"][-1:])
        before = zip(spot.tolist(), taken.tolist(), time_left.tolist(), [0.0, *coins[:-1]], strict=True)
        moments = [Moment(divmod(place, mdp.width), bits, left, so_far) for place, bits, left, so_far in before]
        end = Moment(divmod(int(last.spot), mdp.width), int(last.taken), 0, coins[-1])
        found[length] = [*moments, end]
    return found
