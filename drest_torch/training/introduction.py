"""Say what a run is about to do: what is trained, on which levels, and where its results go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from drest_torch.building.levels import Levels
from drest_torch.config.checks import batch_shape
from drest_torch.config.schema import Config, copies_of, learns_from, start_name
from drest_torch.effort import Pace
from drest_torch.reward import Reward, largest_reward

_SPLITS = {"train": "training level", "test": "test level", "paper": "paper world"}


def levels_to_make(cfg: Config) -> str:
    """Say which levels are generated or read."""
    levels = cfg.levels
    if levels.path is not None:
        return f"reading the levels of {levels.path} …"
    if levels.generator is None:
        return f"loading the levels of {levels.name} …"
    count = levels.train + levels.selection + levels.test
    return f"making {_count(count, 'level')} ({levels.name}) …"


def introduction(
    cfg: Config,
    levels: Levels,
    reported: Mapping[str, Sequence[Any]],
    learner: Any,
    pace: Pace,
    device: torch.device,
    folder: Path,
) -> str:
    """Return the lines that describe a run; ``reported`` are the levels of its last evaluation, by split."""
    evaluated = ", ".join(_count(len(members), _SPLITS.get(split, split)) for split, members in reported.items())
    how = "exactly" if cfg.sampled is None else f"by {_count(cfg.sampled, 'mini-episode')} on each level"
    selection = f"\nbest checkpoint by: {_count(len(levels.selection), 'selection level')}" if levels.selection else ""
    most = max(map(len, reported.values()))
    few = f"\nduring training: on at most {cfg.evaluated_levels:,} of each" if most > cfg.evaluated_levels else ""
    fresh = ", and as many new ones as are needed" if cfg.levels.fresh else ""
    return (
        f"algorithm: {cfg.algo.name}, reward {cfg.reward.name}, {pace.text(cfg.env_steps)}, seed {cfg.seed}\n"
        f"trained on: {_count(len(levels.train), 'level')} ({cfg.levels.path or cfg.levels.name}{fresh})\n"
        f"evaluated on: {evaluated}, {how}{few}{selection}\n"
        f"policy: {_networks(cfg, learner)}{_start(cfg)}{_minibatches(cfg)}\n"
        f"device: {_device(device)}\n"
        f"folder: {folder}"
    )


def environment_introduction(cfg: Config, environment: Any, learner: Any, pace: Pace, folder: Path) -> str:
    """Return the lines that describe a run in an environment that is no gridworld."""
    env, lengths = cfg.env, ", ".join(map(str, environment.lengths))
    workers = f" in {_count(env.workers, 'process')}" if env.workers else ""
    m = ""
    if env.best == "reference":
        m = f"\nm(l): {', '.join(f'{best:.4g}' for best in environment.best.best.mean(0))}, by reference agents"
    return (
        f"algorithm: {cfg.algo.name}, reward {cfg.reward.name}, {pace.text(cfg.env_steps)}, seed {cfg.seed}\n"
        f"trained in: {env.title} ({env.name}), {copies_of(cfg)} copies{workers}; lengths {lengths}{m}\n"
        f"evaluated by: {_count(cfg.sampled or 1024, 'mini-episode')}\n"
        f"policy: {_networks(cfg, learner)}\n"
        f"device: {_device(torch.device('cpu'))}\n"
        f"folder: {folder}"
    )


def _networks(cfg: Config, learner: Any) -> str:
    policy = _size(learner.policy)
    if policy == "0":
        return "a table"
    critic = "" if learner.critic is None else f", and a critic of {_size(learner.critic)}"
    return f"{cfg.policy.network} network, {policy} parameters{critic}"


def _minibatches(cfg: Config) -> str:
    """Say so if a batch has fewer groups than minibatches are asked for."""
    if learns_from(cfg) != "mini-episodes":
        return ""
    shape, asked = batch_shape(cfg), cfg.algo.minibatches
    groups = shape.slots // shape.group
    few = f"\nminibatches: {groups} and not {asked}, as a batch has {_count(groups, 'group')} of mini-episodes"
    return few if groups < asked else ""


def _start(cfg: Config) -> str:
    name = start_name(cfg)
    return "" if name is None else f"; begins with the weights of {name}"


def _size(network: nn.Module) -> str:
    return f"{sum(parameter.numel() for parameter in network.parameters()):,}"


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device}, {_count(torch.get_num_threads(), 'thread')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cut_rewards(reward: Reward) -> str | None:
    """Return a sentence if rewards can be so large that 32-bit numbers have to cut them."""
    most = math.log10(largest_reward(torch.float32))
    if reward.clip is not None or reward.log10_of_largest() <= most:
        return None
    return (
        f"with reward.lam={reward.lam:g} and reward.episodes_per_meta={reward.episodes_per_meta} a length that is "
        f"hardly ever chosen can be paid 10^{reward.log10_of_largest():.0f}; rewards are cut at 10^{most:.0f}"
    )
