"""Build the algorithm of a run, and its source of updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import OmegaConf
from torch import nn

from drest_torch.algos.base import Learner
from drest_torch.algos.networks.policy import memory_of
from drest_torch.building import levels as data
from drest_torch.building.parts import networks, observation, time_steps
from drest_torch.config.checks import batch_shape
from drest_torch.config.schema import Config, algorithm, is_plain, objective_of, shown_features
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.paid_coins import PaidCoins
from drest_torch.envs.levels import Level, features_of
from drest_torch.evaluation.memory import check_at_once
from drest_torch.memory import Bounded, check_batch
from drest_torch.reward import Reward
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import FreshLevels, LevelSampler
from drest_torch.training.updates import ExactUpdater, Ready, SampledUpdater, TabularUpdater, Updater

if TYPE_CHECKING:
    from drest_torch.collector import Environment


def learner_of(
    cfg: Config,
    reward: Reward,
    levels: data.Levels,
    map_size: tuple[int, int],
    rng: torch.Generator,
    device: torch.device,
) -> tuple[Learner, Updater]:
    """Return the algorithm of a run in gridworlds, with its networks, and its source of updates."""
    train, coins, source = levels.train, _paid_coins(cfg), _source(cfg, levels, rng)
    features = features_of(train) | shown_features(cfg)

    def ready(some: Sequence[Level]) -> Ready:
        mdp = compile_levels(some, device, at_least=map_size, features=features)
        optima = coins.optima(mdp, reward.gamma, committed=reward.committed)
        return coins.paid(mdp), optima, observation(cfg, mdp)

    kind = algorithm(cfg.algo.name).Algorithm
    if kind.learns_from == "mini-episodes":
        return _sampled(cfg, reward, levels, source, ready, rng)
    # If levels are compiled on demand, one level is enough to infer the observation shape.
    mdp, optima, observe = ready(train if kind.learns_from == "world" else train[:1])
    with Bounded():
        policy, _ = networks(cfg, observe)
    learner: Learner = kind(policy.to(device), None, cfg.algo, rng)
    if kind.learns_from == "world":
        check_batch(cfg.algo.episodes)
        updater: Updater = TabularUpdater(mdp, optima, reward, cfg.algo)
    else:
        check_at_once(mdp, cfg.algo.levels_at_once, cfg.memory_gib, 1 << cfg.policy.private_bits)
        exact = ExactLevels(
            source,
            cfg.policy.observation,
            reward=reward,
            coins=coins,
            objective=objective_of(cfg),
            at_once=cfg.algo.levels_at_once,
            at_least=map_size,
            features=features,
            time_steps=time_steps(cfg),
            device=device,
        )
        updater = ExactUpdater(exact, cfg.algo.counted_steps)
    updater.begin(learner)
    return learner, updater


def _sampled(
    cfg: Config,
    reward: Reward,
    levels: data.Levels,
    source: LevelSampler,
    ready: Callable[[Sequence[Level]], Ready],
    rng: torch.Generator,
) -> tuple[Learner, Updater]:
    """Return an algorithm that learns from mini-episodes in gridworlds."""
    from drest_torch.gridworlds import Gridworlds  # TorchRL takes seconds to import

    slots, rounds, group = batch_shape(cfg)
    check_batch(cfg.algo.episodes)
    mdp, optima, observe = ready(levels.train[:1] if source.changes else levels.train)
    environment = Gridworlds.on(
        mdp,
        optima,
        observe,
        slots=slots,
        rounds=rounds,
        group=group,
        private_bits=cfg.policy.private_bits,
        private_kind=cfg.policy.private_kind,
        most_lengths=levels.split.config.lengths[1] if levels.split is not None else None,
    )
    has_critic = algorithm(cfg.algo.name).Algorithm.needs_critic
    counts = has_critic and reward.counting == "sequential"
    environment.pay(reward, shows_counts=counts, objective=None if is_plain(cfg) else objective_of(cfg))
    with Bounded():
        context = environment.num_lengths if counts else 0
        policy, critic = networks(cfg, observe, context=context, with_critic=has_critic)
    return sampled_learner(cfg, environment, policy, critic, rng, source=source, ready=ready)


def sampled_learner(
    cfg: Config,
    environment: Environment,
    policy: nn.Module,
    critic: nn.Module | None,
    rng: torch.Generator,
    **levels: Any,
) -> tuple[Learner, SampledUpdater]:
    """Return an algorithm that learns from mini-episodes of an environment, and its source of updates."""
    policy, critic = policy.to(rng.device), critic if critic is None else critic.to(rng.device)
    learner: Learner = algorithm(cfg.algo.name).Algorithm(
        policy,
        critic,
        cfg.algo,
        rng,
        actor=environment.actor(policy),
        value=environment.value(critic),
        view=environment.view,
        group=environment.group or (1 if memory_of(policy) else None),
    )
    updater = SampledUpdater(environment, rng, **levels)
    updater.begin(learner)
    return learner, updater


def _paid_coins(cfg: Config) -> PaidCoins:
    """Return what a run pays for coins; older runs do not say, and paid what they are worth."""
    if OmegaConf.is_missing(cfg.reward, "pays"):
        return PaidCoins()
    return PaidCoins(cfg.reward.pays, cfg.reward.best_of)


def _source(cfg: Config, levels: data.Levels, rng: torch.Generator) -> LevelSampler:
    if cfg.levels.fresh:
        assert levels.split is not None  # `data.load` guarantees it
        return FreshLevels(levels.split, rng, symmetries=cfg.levels.symmetries)
    return LevelSampler(levels.train, rng, symmetries=cfg.levels.symmetries)
