"""Example mini-episodes of a policy, one for each length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.moments import Episode, Moment
from drest_torch.envs.exact.solver import Optima
from drest_torch.play.gridworld_slots import Gridworlds

LIKELY = 0.01
"""The smallest probability of a length that gets an example."""
AT_ONCE, BATCHES = 256, 8
"""Mini-episodes in a batch, and the maximum number of batches. A length of probability 1 % is missed with 1e-9."""


def sample_episodes(
    level_set: Any, policy: Any, probabilities: Mapping[int, float], *, greedy: bool, seed: int
) -> list[Episode]:
    """Return a mini-episode on the first level for each likely length, shortest first.

    ``level_set`` is an `ExactEvaluator`, and ``probabilities`` maps lengths to probabilities.
    """
    mdp, optima = level_set.mdp, level_set.optima
    likely = {length for length, probability in probabilities.items() if probability > LIKELY}
    rng = torch.Generator(mdp.device).manual_seed(seed)
    worlds = Gridworlds.on(mdp, optima, level_set.observe, slots=AT_ONCE, private_bits=policy.private_bits)
    worlds.base.play_on(torch.zeros(AT_ONCE, dtype=torch.int64))
    collector = worlds.collector(worlds.actor(policy), greedy=greedy)
    episodes: dict[int, Episode] = {}
    for _ in range(BATCHES):
        if likely == episodes.keys():
            break
        batch = collector.collect(rng)
        for length, moments in _mini_episodes(mdp, optima, batch).items():
            if length in likely and length not in episodes:
                episodes[length] = Episode(length, probabilities[length], moments)
    return [episodes[length] for length in sorted(episodes)]


def _mini_episodes(mdp: Mdp, optima: Optima, batch: TensorDictBase) -> dict[int, list[Moment]]:
    """Return the first mini-episode of each length in a batch on the first level."""
    episodes: dict[int, list[Moment]] = {}
    ended = batch["next", "mini_done"].squeeze(-1)  # [slots, time]
    column = batch["next", "mini_len"].squeeze(-1)
    for slot, time in ended.nonzero().tolist():
        length = int(optima.lengths[0, column[slot, time]])
        if length not in episodes:
            episodes[length] = _moments(mdp, batch[slot, : time + 1])
    return episodes


def _moments(mdp: Mdp, steps: TensorDictBase) -> list[Moment]:
    """Return the moments of a mini-episode from its steps [time]."""
    spot, taken, time_left = mdp.states.decode(steps["state"])
    coins = steps["next", "reward"].squeeze(-1).cumsum(0).tolist()
    end = mdp.advance(spot[-1:], taken[-1:], steps["action"][-1:])
    spots = [*spot.tolist(), int(end.spot)]
    taken_sets = [*taken.tolist(), int(end.taken)]
    times_left = [*time_left.tolist(), 0]
    coins_so_far = [0.0, *coins]
    cells = [divmod(place, mdp.width) for place in spots]
    return list(map(Moment, cells, taken_sets, times_left, coins_so_far))
