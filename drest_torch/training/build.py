"""Build the networks and evaluators of a run from its configuration."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from algos.networks.mlp import Critic, Policy, Size
from algos.networks.symmetric import Symmetries
from drest_torch.config.schema import Config, algorithm
from drest_torch.evaluation.exact import Evaluator, Prepared
from drest_torch.evaluation.sampled import Sampler
from drest_torch.training import levels as data
from envs.dynamics.mdp import NUM_ACTIONS
from envs.dynamics.observations import Observation
from envs.levels.symmetry import turned_actions, turned_cells


def networks(
    cfg: Config, observe: Observation, context: int, *, with_critic: bool, seed: int, fixed_shapes: bool = False
) -> tuple[Policy, Critic | None]:
    """A policy and, where the algorithm has one, a critic; their weights follow from the seed alone.

    With ``fixed_shapes`` they do nothing that takes more or less memory as their inputs are one way or another.
    """
    reads_maps = cfg.policy.network == "convolutional"
    size = Size(cfg.policy.width, cfg.policy.depth, cfg.policy.activation, reads_maps, once=not fixed_shapes)
    noise = cfg.policy.noise
    symmetries, critic = _symmetries(cfg, observe), None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = algorithm(cfg.algo.name).Algorithm.new_policy(observe, NUM_ACTIONS, size, noise, symmetries)
        if with_critic:
            scale = observe.scale.cpu()
            critic = Critic(observe.shape, size, scale=scale, noise=noise, context=context, symmetries=symmetries)
    return policy, critic


def _symmetries(cfg: Config, observe: Observation) -> Symmetries | None:
    """What turning a level does to what a network sees and says, if that is to be built into it."""
    if cfg.policy.network == "mlp":
        return None
    if cfg.policy.network == "convolutional":
        return Symmetries(turned_cells(3), turned_actions())
    assert observe.turned is not None  # `check_run` has seen to it
    return Symmetries(observe.turned.cpu(), turned_actions())


def evaluator(
    cfg: Config,
    levels: list[Any],
    size: tuple[int, int],
    device: torch.device,
    *,
    sampled: int | None,
    memory_gib: float,
) -> Prepared:
    """A level set to evaluate on exactly or, with so many mini-episodes on each level, by sampling."""
    kind = Evaluator if sampled is None else partial(Sampler, mini_episodes=sampled, seed=cfg.seed)
    return kind(
        levels,
        cfg.policy.observation,
        gamma=cfg.reward.gamma,
        lam=cfg.reward.lam,
        episodes_per_meta=cfg.reward.episodes_per_meta,
        divide_by_best=cfg.reward.divide_by_best,
        at_least=size,
        noise_kind=cfg.policy.noise_kind,
        noise_draws=cfg.policy.noise_draws,
        memory_gib=memory_gib,
        device=device,
    )


def map_size(cfg: Config, levels: data.Levels) -> tuple[int, int]:
    """Rows and columns of the largest map of all: smaller ones are padded to it with wall."""
    if cfg.policy.observation == "vector":
        return levels.train[0].height, levels.train[0].width
    sizes = [(level.height, level.width) for level in levels.every()]
    if levels.split is not None:  # however many levels of it are made
        sizes.append((levels.split.config.height[1], levels.split.config.width[1]))
    height, width = max(height for height, _ in sizes), max(width for _, width in sizes)
    if cfg.policy.network == "symmetric" or cfg.levels.symmetries:  # a quarter turn puts rows for columns
        return max(height, width), max(height, width)
    return height, width
