"""One mini-episode of every slot, tick by tick, with the network asked once for each distinct input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from algos.batch import sample
from algos.generators import Draws
from envs.dynamics.episodes import Played, Slots, begin, play
from envs.dynamics.mdp import Mdp
from envs.dynamics.observations import Observation


class Tick(NamedTuple):
    """One action of every slot whose mini-episode goes on; n of them."""

    slot: Tensor
    """[n]"""
    observation: Tensor
    """[u, *shape] the distinct ones, in which the policy was asked"""
    noise: Tensor | None
    """[u, noise]"""
    seen: Tensor
    """[n] index among them"""
    log_probs: Tensor
    """[n, 4]"""
    action: Tensor
    before: Slots
    step: Played


def ticks(
    mdp: Mdp,
    observe: Observation,
    policy: Callable[[Tensor, Tensor | None], Tensor],
    level: Tensor,
    noise: Tensor | None,
    draws: Draws,
    *,
    noise_bits: bool,
) -> Iterator[Tick]:
    """Play one mini-episode of every slot on its level [slots], with its private noise [slots, noise], to the end."""
    slots = begin(mdp, level)
    live = torch.arange(len(level), device=mdp.device)
    while len(live):
        kept, seen = _distinct(mdp, slots, None if noise is None else noise[live], noise_bits)
        observation = observe(slots.spot[kept], slots.taken[kept], slots.time_left[kept])
        given = None if noise is None else noise[live[kept]]
        log_probs = policy(observation, given).log_softmax(-1)[seen]
        action = sample(log_probs, draws.uniform(*log_probs.shape))
        luck = draws.uniform(len(live)) if mdp.any_chance else None
        after, step = play(mdp, slots, action, luck)
        yield Tick(live, observation, given, seen, log_probs, action, slots, step)
        on = (~step.mini_done).nonzero().squeeze(-1)
        slots, live = Slots(*(value[on] for value in after)), live[on]


def draw_noise(draws: Draws, slots: int, count: int, bits: bool) -> Tensor | None:
    """[slots, count] private noise of a mini-episode."""
    if count == 0:
        return None
    drawn = draws.uniform(slots, count)
    return (drawn < 0.5).float() if bits else drawn


def _distinct(mdp: Mdp, slots: Slots, noise: Tensor | None, noise_bits: bool) -> tuple[Tensor, Tensor]:
    """One slot for each distinct input of the policy, and for each slot the index of its input."""
    if noise is not None and not noise_bits:
        every = torch.arange(len(slots.spot), device=mdp.device)
        return every, every
    key = slots.spot * (mdp.max_time + 1) + slots.time_left
    if noise is not None:
        weights = 1 << torch.arange(noise.shape[1], device=mdp.device)
        key = (key << noise.shape[1]) + (noise.long() * weights).sum(-1)
    unique, seen = torch.unique((key << mdp.num_objects) | slots.taken, return_inverse=True)
    kept = torch.empty_like(unique).scatter_(0, seen, torch.arange(len(seen), device=seen.device))
    return kept, seen
