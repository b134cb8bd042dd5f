"""Third-party environments of Gymnasium, TorchRL or the user, with the transforms of a configuration."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
from omegaconf import ListConfig, OmegaConf
from torchrl.data import Bounded, Categorical, OneHot
from torchrl.envs import Compose, EnvBase, ParallelEnv, SerialEnv, Transform, TransformedEnv

from drest_torch.algos.distributions import ActionKind, box, multi_categorical, one_of
from drest_torch.algos.networks.base import requirements
from drest_torch.config.schema import Config, EnvConfig, copies_of
from drest_torch.errors import ConfigError, blaming
from drest_torch.play.rows import RowEnvironment
from drest_torch.registry import function, search_working_directory
from drest_torch.reward import Reward
from drest_torch.transforms import (
    BestReturn,
    Flatten,
    MetaEpisodes,
    PrivateBits,
    ShutdownTimer,
    Squash,
)
from drest_torch.transforms.base import choices, is_choice, title
from drest_torch.transforms.flatten import SEEN

RENDERED = 50
"""The maximum number of mini-episodes played to render each length once."""


def training_environment(cfg: Config, reward: Reward, *, with_critic: bool) -> RowEnvironment:
    """Return the training environment of a run; in a batch each slot plays one meta-episode.

    A critic sees the counts of sequential mini-episodes.
    """
    copies = copies_of(cfg)
    rounds = cfg.algo.episodes // copies
    is_averaged = reward.counting == "averaged"
    group = cfg.reward.group if is_averaged else 1
    environment = _environment(cfg, reward, copies, rounds, group=group)
    environment.pay(reward, group=group, shows_counts=with_critic and not is_averaged)
    return environment


def evaluation_environment(
    cfg: Config, reward: Reward, mini_episodes: int, *, beside: RowEnvironment | None = None
) -> RowEnvironment:
    """Return an environment in which all slots together play this many mini-episodes, without a discount.

    If there are more levels than slots, several batches are needed. For a recurrent policy a slot plays as many
    mini-episodes as in training, so that a batch is whole meta-episodes. If the environment ``beside`` has the same
    number of slots, the two share its copies and take turns.
    """
    copies = copies_of(cfg)  # a factory may support no other number
    if cfg.env.name == "gymnasium":
        copies = min(copies, mini_episodes)
    rounds = math.ceil(mini_episodes / max(copies, cfg.env.levels or 1))
    if requirements(cfg.policy.network).remembers:
        rounds = cfg.algo.episodes // copies_of(cfg)
    base = None
    if beside is not None and beside.env.batch_size.numel() == copies:
        base = beside.env.base_env
    return _environment(cfg, reward, copies, rounds, base=base)


def rendering_environment(cfg: Config, reward: Reward) -> RowEnvironment:
    """Return an environment of one slot, which renders images if it can."""
    base = base_environment(cfg.env, 1, render_mode="rgb_array")
    return _environment(cfg, reward, 1, RENDERED, skip=False, base=base)


def played_environment(env_cfg: EnvConfig, base: EnvBase, rounds: int) -> RowEnvironment:
    """Return an environment in which each slot plays ``rounds`` mini-episodes, without estimates of m(l)."""
    cfg = cast(Config, OmegaConf.create({"env": env_cfg, "policy": {"private_bits": 0}}))
    return _environment(cfg, Reward(), base.batch_size.numel(), rounds, skip=False, base=base, measures=False)


def acting_environment(cfg: Config, copies: int) -> EnvBase:
    """Return copies of the environment for an agent's use; ``done`` is the end of a mini-episode."""
    base = base_environment(cfg.env, copies)
    timer = _timer(cfg.env, base, skip=False)
    if timer is None:
        return base
    return TransformedEnv(base, timer)


def _environment(
    cfg: Config,
    reward: Reward,
    copies: int,
    rounds: int,
    *,
    group: int = 1,
    skip: bool = True,
    base: EnvBase | None = None,
    measures: bool = True,
) -> RowEnvironment:
    env_cfg = cfg.env
    if base is None:
        base = base_environment(env_cfg, copies)
    timer = _timer(env_cfg, base, skip=skip)
    lengths = _lengths(base, timer)
    best = None
    if measures and not _shows(base, "best_return"):
        best = _best_return(env_cfg, len(lengths), reward.gamma)
    meta_episodes = _meta_episodes(env_cfg, base, rounds, group)
    transforms: list[Transform] = [transform for transform in (timer, best, meta_episodes) if transform is not None]
    if cfg.policy.private_bits:
        transforms.append(PrivateBits(cfg.policy.private_bits))
    env = TransformedEnv(base, Compose(*transforms))
    observed = _observed(env_cfg, base)
    if timer is not None:
        observed.append("timer")
    flatten = Flatten(env, observed)
    actions = _actions(env)
    env.append_transform(flatten)
    action_spec = env.full_action_spec["action"]
    if isinstance(action_spec, Bounded):
        env.append_transform(Squash(action_spec.space.low, action_spec.space.high))
    return RowEnvironment(
        env=env,
        ends=meta_episodes,
        sees=SEEN,
        actions=actions,
        num_lengths=len(lengths),
        private_bits=cfg.policy.private_bits,
        flatten=flatten,
        best=best,
        lengths=lengths,
        request_probability=_request_probability(timer, lengths),
        rounds=meta_episodes.episodes,
    )


def _shows(base: EnvBase, key: str) -> bool:
    return base.observation_spec.get(key, None) is not None


def _lengths(base: EnvBase, timer: ShutdownTimer | None) -> list[int]:
    """Return the lengths of mini-episodes: steps with a timer, else the indices of the environment's own."""
    if timer is not None:
        return list(timer.lengths)
    return list(range(_number_of_lengths(base)))


def _best_return(env_cfg: EnvConfig, lengths: int, gamma: float) -> BestReturn:
    """Return the transform that estimates m(l) or reads it from the configuration."""
    configured = None
    if isinstance(env_cfg.best, ListConfig):
        configured = list(env_cfg.best)
    return BestReturn(lengths, fixed=configured, gamma=gamma, floor=env_cfg.floor, levels=env_cfg.levels or 1)


def _meta_episodes(env_cfg: EnvConfig, base: EnvBase, rounds: int, group: int) -> MetaEpisodes:
    """Return the transform that starts the mini-episodes of a meta-episode, unless the environment does it itself."""
    if _shows(base, "mini_done"):
        if group > 1:
            raise ConfigError(
                f"reward.counting=averaged, but {title(base)} plays mini-episodes of its own, one after the other; use "
                "reward.counting=sequential"
            )
        return MetaEpisodes(1, together=True, group=group)
    levels = None
    if env_cfg.levels is not None:
        levels = range(env_cfg.levels)
    return MetaEpisodes(rounds, together=True, group=group, levels=levels)


def _observed(env_cfg: EnvConfig, base: EnvBase) -> list[str]:
    """Return the entries of a policy's observation."""
    entries = [str(key) for key in base.observation_spec.keys(True, True)]
    observed = list(env_cfg.observed or entries)
    if not env_cfg.observed and {"observation", "mini_len"} <= set(entries):
        observed = ["observation"]
    for key in observed:
        if not _shows(base, key):
            raise ConfigError(
                f"env.observed with '{key}', but {title(base)} shows {', '.join(entries)}; choose some of these"
            )
    return observed


def _request_probability(timer: ShutdownTimer | None, lengths: list[int]) -> float | None:
    """Return the probability of a request per step with which half of the mini-episodes have a request."""
    if timer is None or len(lengths) == 1 or callable(timer.control):
        return None
    steps = timer.window or lengths[0]
    return 1 - 0.5 ** (1 / steps)


def _workers(env_cfg: EnvConfig, copies: int, *, renders: bool) -> int:
    """Return the number of processes; 0 for rendering, or if the copies cannot be divided equally, as in evaluation."""
    if renders or env_cfg.workers == 0 or copies % env_cfg.workers:
        return 0
    return env_cfg.workers


def base_environment(env_cfg: EnvConfig, copies: int, *, render_mode: str | None = None) -> EnvBase:
    """Return copies of the environment without transforms, as a batched environment [copies]."""
    mode = {}
    if render_mode is not None:
        mode["render_mode"] = render_mode
    if env_cfg.name == "gymnasium":
        return _gymnasium_batch(env_cfg, copies, mode)
    if env_cfg.factory is None:
        raise ConfigError("env=torchrl without env.factory; give a function that makes it, as package.module:function")
    with blaming(f"env.factory={env_cfg.factory}"):
        make = function(env_cfg.factory, "env.factory")
    return copies_of_factory(make, env_cfg, copies, mode)


def _gymnasium_batch(env_cfg: EnvConfig, copies: int, mode: Mapping[str, str]) -> EnvBase:
    """Return copies of the environment with the id of ``env.id``."""
    from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch

    if env_cfg.id is None:
        raise ConfigError("env=gymnasium without env.id; give the id of an environment, such as CartPole-v1")
    make: Any = env_cfg.id
    options: dict[str, Any] = {str(key): value for key, value in env_cfg.options.items()} | dict(mode)
    if ":" in env_cfg.id:
        search_working_directory()
    if env_cfg.id.startswith(("MiniGrid-", "BabyAI-")):
        from drest_torch.envs.interfaces.minigrid import make_minigrid

        make, options = partial(make_minigrid, env_cfg.id, **options), {}
    workers = _workers(env_cfg, copies, renders=bool(mode))
    return GymnasiumBatch(make, copies, workers=workers, options=options)


def copies_of_factory(make: Callable[..., Any], env_cfg: EnvConfig, copies: int, mode: Mapping[str, str]) -> EnvBase:
    """Return copies of the environment that the function ``env.factory`` creates."""
    factory = f"env.factory={env_cfg.factory}"
    workers = _workers(env_cfg, copies, renders="render_mode" in mode)
    with blaming(factory):
        parameters = inspect.signature(make).parameters
        arguments: dict[str, Any] = {"copies": copies, **mode}
        make = partial(make, **{key: value for key, value in arguments.items() if key in parameters})
        first = make()
    if "gymnasium" in sys.modules and isinstance(first, sys.modules["gymnasium"].Env):
        from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch

        first.close()
        return GymnasiumBatch(make, copies, workers=workers)
    if not isinstance(first, EnvBase):
        raise ConfigError(
            f"env.factory={env_cfg.factory} returns a {type(first).__name__}; expected a TorchRL EnvBase or a "
            "Gymnasium Env"
        )
    if tuple(first.batch_size) not in ((), (copies,)):
        raise ConfigError(
            f"{factory} makes {' x '.join(map(str, first.batch_size))} slots, but {copies} are needed; set "
            f"env.copies={first.batch_size.numel()}, or let it make one without a batch size"
        )
    possible_workers = 0 if first.batch_size else copies
    if env_cfg.workers not in (0, possible_workers):
        raise ConfigError(
            f"env.workers={env_cfg.workers}, but each copy of a TorchRL environment has a process of its own, unless "
            f"{factory} makes all in one; use env.workers={possible_workers}"
        )
    if first.batch_size:
        return first
    first.close()
    batched: type[EnvBase] = SerialEnv
    if env_cfg.workers and not mode:
        batched = ParallelEnv
    with blaming(factory):
        batch = batched(copies, make)
    batch.name = title(first)
    return batch


def _timer(env_cfg: EnvConfig, base: EnvBase, *, skip: bool) -> ShutdownTimer | None:
    if env_cfg.base is None:
        return None
    control: Any = env_cfg.control
    if control == "auto":
        control = "dimension"
        if is_choice(base.full_action_spec.get("action", None), len(base.batch_size)):
            control = "action"
    elif control not in ("action", "dimension"):
        setting = f"env.control={control}"
        with blaming(setting):
            control = blaming(setting)(function(control, "env.control"))
    return ShutdownTimer(
        env_cfg.base,
        list(env_cfg.delays),
        control=control,
        idle=env_cfg.idle,
        window=env_cfg.window,
        cost=env_cfg.cost,
        ended=cast(Any, env_cfg.ended),
        skip=skip and env_cfg.ended == "absorb",
    )


def _number_of_lengths(base: EnvBase) -> int:
    """Return k of an environment that defines its own lengths."""
    spec = base.observation_spec.get("mini_len", None)
    if not isinstance(spec, Categorical):
        raise ConfigError(
            f"env.base=null, but {title(base)} does not report the length of a mini-episode; declare "
            "mini_len=Categorical(k, shape=(*batch, 1)) in its observation_spec, or set env.base and env.delays"
        )
    return int(spec.space.n)


def _actions(env: EnvBase) -> ActionKind:
    spec = env.full_action_spec["action"]
    if is_choice(spec, len(env.batch_size)):
        return one_of(spec.space.n, one_hot=isinstance(spec, OneHot))
    counts = choices(spec, len(env.batch_size))
    if counts is not None:
        return multi_categorical(counts)
    if isinstance(spec, Bounded) and spec.ndim == len(env.batch_size) + 1:
        dimensions = spec.shape[-1]
        low = spec.space.low.reshape(-1, dimensions)[0].float()  # [slots, dimensions] → those of the first slot
        high = spec.space.high.reshape(-1, dimensions)[0].float()
        if torch.isfinite(low).all() and torch.isfinite(high).all():
            return box(low, high)
    raise ConfigError(
        f"{title(env)} has the action space {type(spec).__name__}{tuple(spec.shape)}; expected one of n actions, "
        "several such choices, or a vector of numbers with finite bounds"
    )
