"""Play one mini-episode per slot, tick by tick, with one evaluation of the network per distinct input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.algos.batch import sample
from drest_torch.algos.generators import Generators
from drest_torch.envs.dynamics.episodes import EpisodeState, StepResult, start_episodes, step_episodes
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.observations import Observation

PATIENCE = 100
"""On a clock that counts moves a mini-episode may never end. It is given up after this many actions per tick."""
Act = Callable[[Tensor, Tensor | None], Tensor]
"""A function from observations and private bits to logits of the actions."""


class Tick(NamedTuple):
    """One action in each of the n slots whose mini-episode has not ended; they have u distinct inputs."""

    slot: Tensor
    """[n]"""
    observation: Tensor
    """[u, *shape] the distinct observations, for which the policy is evaluated"""
    private_bits: Tensor | None
    """[u, bits] their private bits"""
    seen: Tensor
    """[n] the index of each slot's input among the distinct ones"""
    log_probs: Tensor
    """[n, 4]"""
    action: Tensor
    before: EpisodeState
    step: StepResult


def ticks(
    mdp: Mdp,
    observe: Observation,
    policy: Callable[[Tensor, Tensor | None], Tensor],
    level: Tensor,
    private_bits: Tensor | None,
    rng: Generators,
    *,
    are_bits: bool,
) -> Iterator[Tick]:
    """Play one mini-episode of every slot on its level [slots], with its private bits [slots, bits], to the end."""
    slots = start_episodes(mdp, level)
    live = torch.arange(len(level), device=mdp.device)
    while len(live):
        distinct, index = _distinct(mdp, slots, None if private_bits is None else private_bits[live], are_bits)
        observation = observe(slots.spot[distinct], slots.taken[distinct], slots.time_left[distinct])
        private = None if private_bits is None else private_bits[live[distinct]]
        log_probs = policy(observation, private).log_softmax(-1)[index]
        action = sample(log_probs, rng.uniform(*log_probs.shape))
        luck = rng.uniform(len(live)) if mdp.any_chance else None
        after, step = step_episodes(mdp, slots, action, luck)
        yield Tick(live, observation, private, index, log_probs, action, slots, step)
        unfinished = (~step.mini_done).nonzero().squeeze(-1)
        slots, live = EpisodeState(*(value[unfinished] for value in after)), live[unfinished]


def sample_private_bits(rng: Generators, slots: int, count: int, bits: bool) -> Tensor | None:
    """Sample [slots, count] the private bits, or uniform private numbers, of a mini-episode."""
    if count == 0:
        return None
    numbers = rng.uniform(slots, count)
    return (numbers < 0.5).float() if bits else numbers


def _distinct(mdp: Mdp, slots: EpisodeState, private_bits: Tensor | None, are_bits: bool) -> tuple[Tensor, Tensor]:
    """Return one slot for each distinct input of the policy, and for each slot the index of its input."""
    if private_bits is not None and not are_bits:
        all_slots = torch.arange(len(slots.spot), device=mdp.device)
        return all_slots, all_slots
    key = slots.spot * (mdp.max_time + 1) + slots.time_left
    if private_bits is not None:
        weights = 1 << torch.arange(private_bits.shape[1], device=mdp.device)
        key = (key << private_bits.shape[1]) + (private_bits.long() * weights).sum(-1)
    unique, index = torch.unique((key << mdp.num_objects) | slots.taken, return_inverse=True)
    slot = torch.empty_like(unique).scatter_(0, index, torch.arange(len(index), device=index.device))
    return slot, index
