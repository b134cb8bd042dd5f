"""Play one mini-episode per slot, tick by tick, with one evaluation of the network per distinct input."""

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
    """One action in each of the n slots whose mini-episode has not ended; they have u distinct inputs."""

    slot: Tensor
    """[n]"""
    observation: Tensor
    """[u, *shape] the distinct observations, for which the policy is evaluated"""
    noise: Tensor | None
    """[u, bits] their private bits"""
    seen: Tensor
    """[n] the index of each slot's input among the distinct ones"""
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
    """Play one mini-episode of every slot on its level [slots], with its private bits [slots, bits], to the end."""
    slots = begin(mdp, level)
    live = torch.arange(len(level), device=mdp.device)
    while len(live):
        distinct, index = _distinct(mdp, slots, None if noise is None else noise[live], noise_bits)
        observation = observe(slots.spot[distinct], slots.taken[distinct], slots.time_left[distinct])
        private = None if noise is None else noise[live[distinct]]
        log_probs = policy(observation, private).log_softmax(-1)[index]
        action = sample(log_probs, draws.uniform(*log_probs.shape))
        luck = draws.uniform(len(live)) if mdp.any_chance else None
        after, step = play(mdp, slots, action, luck)
        yield Tick(live, observation, private, index, log_probs, action, slots, step)
        unfinished = (~step.mini_done).nonzero().squeeze(-1)
        slots, live = Slots(*(value[unfinished] for value in after)), live[unfinished]


def draw_noise(draws: Draws, slots: int, count: int, bits: bool) -> Tensor | None:
    """Sample [slots, count] the private bits, or uniform private numbers, of a mini-episode."""
    if count == 0:
        return None
    numbers = draws.uniform(slots, count)
    return (numbers < 0.5).float() if bits else numbers


def _distinct(mdp: Mdp, slots: Slots, noise: Tensor | None, noise_bits: bool) -> tuple[Tensor, Tensor]:
    """Return one slot for each distinct input of the policy, and for each slot the index of its input."""
    if noise is not None and not noise_bits:
        all_slots = torch.arange(len(slots.spot), device=mdp.device)
        return all_slots, all_slots
    key = slots.spot * (mdp.max_time + 1) + slots.time_left
    if noise is not None:
        weights = 1 << torch.arange(noise.shape[1], device=mdp.device)
        key = (key << noise.shape[1]) + (noise.long() * weights).sum(-1)
    unique, index = torch.unique((key << mdp.num_objects) | slots.taken, return_inverse=True)
    slot = torch.empty_like(unique).scatter_(0, index, torch.arange(len(index), device=index.device))
    return slot, index
