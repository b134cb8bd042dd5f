"""Example mini-episodes of a policy, one for each length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""Mini-episodes of a level in a batch, and the most batches. A length of probability 1 % is missed with 1e-9."""


def sample_episodes(
    level_set: Any, policy: Any, probabilities: Sequence[Mapping[int, float]], *, greedy: bool, seed: int
) -> list[list[Episode]]:
    """Return a mini-episode for each likely length of each level, shortest first.

    ``level_set`` is an `ExactEvaluator`. ``probabilities`` maps lengths to probabilities, for each of its first levels;
    the other levels are not played.
    """
    mdp, optima = level_set.mdp, level_set.optima
    likely = {
        (level, length) for level, lengths in enumerate(probabilities) for length, p in lengths.items() if p > LIKELY
    }
    rng = torch.Generator(mdp.device).manual_seed(seed)
    levels = torch.arange(len(probabilities)).repeat_interleave(AT_ONCE)
    worlds = Gridworlds.on(mdp, optima, level_set.observe, slots=len(levels), private_bits=policy.private_bits)
    worlds.base.play_on(levels)
    collector = worlds.collector(worlds.actor(policy), greedy=greedy)
    examples: dict[tuple[int, int], Episode] = {}
    for _ in range(BATCHES):
        missing = likely - examples.keys()
        if not missing:
            break
        batch = collector.collect(rng)
        for (level, length), (slot, end) in _first_of_each_length(optima, batch).items():
            if (level, length) in missing:
                moments = _moments(mdp, batch[slot, : end + 1])
                examples[level, length] = Episode(length, probabilities[level][length], moments)
    episodes: list[list[Episode]] = [[] for _ in probabilities]
    for level, length in sorted(examples):
        episodes[level].append(examples[level, length])
    return episodes


def _first_of_each_length(optima: Optima, batch: TensorDictBase) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the slot and the last step of the first mini-episode of each level and length in a batch."""
    ended = batch["next", "mini_done"].squeeze(-1)  # [slots, time]
    column = batch["next", "mini_len"].squeeze(-1)
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for slot, step in ended.nonzero().tolist():
        level = slot // AT_ONCE
        first.setdefault((level, int(optima.lengths[level, column[slot, step]])), (slot, step))
    return first


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
