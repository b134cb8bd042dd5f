"""Third-party environments of Gymnasium, TorchRL or the user, with the transforms that a configuration asks for."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
from omegaconf import ListConfig, OmegaConf
from torchrl.data import Bounded, Categorical, OneHot
from torchrl.envs import Compose, EnvBase, ParallelEnv, SerialEnv, TransformedEnv

from drest_torch.algos.distributions import ActionKind, box, one_of, several
from drest_torch.algos.networks.base import requirements
from drest_torch.config.schema import Config, EnvConfig, copies_of
from drest_torch.errors import ConfigError, blaming
from drest_torch.play.rows import RowEnvironment
from drest_torch.registry import function, search_here
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
"""Mini-episodes that are played, at most, until each length was rendered once."""


def training_environment(cfg: Config, reward: Reward, *, with_critic: bool) -> RowEnvironment:
    """Return the environment that a run trains in: each of its slots plays one meta-episode for a batch.

    A critic sees the counts of sequential mini-episodes.
    """
    copies, is_averaged = copies_of(cfg), reward.counting == "averaged"
    group = cfg.reward.group if is_averaged else 1
    environment = _environment(cfg, reward, copies, cfg.algo.episodes // copies, group=group)
    environment.pay(reward, group=group, shows_counts=with_critic and not is_averaged)
    return environment


def evaluation_environment(
    cfg: Config, reward: Reward, mini_episodes: int, *, beside: RowEnvironment | None = None
) -> RowEnvironment:
    """Return an environment in which the slots together play so many mini-episodes, without a discount.

    On more levels than there are slots it takes several batches.

    For a policy that remembers they play as many as in training, so that a batch is whole meta-episodes.
    It has the copies of the environment ``beside`` it, if these are as many; then the two take turns.
    """
    copies = copies_of(cfg)  # a factory may make so many slots, and no others
    if cfg.env.name == "gymnasium":
        copies = min(copies, mini_episodes)
    shares = beside is not None and beside.env.batch_size.numel() == copies
    remembers = requirements(cfg.policy.network).remembers
    rounds = cfg.algo.episodes // copies_of(cfg) if remembers else -(-mini_episodes // max(copies, cfg.env.levels or 1))
    return _environment(cfg, reward, copies, rounds, base=beside.env.base_env if beside and shares else None)


def rendering_environment(cfg: Config, reward: Reward) -> RowEnvironment:
    """Return an environment of one slot that renders images, if it can."""
    base = base_environment(cfg.env, 1, render_mode="rgb_array")
    return _environment(cfg, reward, 1, RENDERED, skip=False, base=base)


def played_environment(chosen: EnvConfig, base: EnvBase, rounds: int) -> RowEnvironment:
    """Return an environment in which each slot plays so many mini-episodes, and nothing is said of m(l)."""
    cfg = cast(Config, OmegaConf.create({"env": chosen, "policy": {"private_bits": 0}}))
    return _environment(cfg, Reward(), base.batch_size.numel(), rounds, skip=False, base=base, measures=False)


def acting_environment(cfg: Config, copies: int) -> EnvBase:
    """Return copies of the environment to act in; ``done`` is the end of a mini-episode."""
    base = base_environment(cfg.env, copies)
    timer = _timer(cfg.env, base, skip=False)
    return base if timer is None else TransformedEnv(base, timer)


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
    chosen = cfg.env
    base = base_environment(chosen, copies) if base is None else base
    shown, timer = base.observation_spec, _timer(chosen, base, skip=skip)
    lengths = list(timer.lengths if timer is not None else range(_lengths_of(base)))
    best = bits = None
    if measures and shown.get("best_return", None) is None:
        given = list(chosen.best) if isinstance(chosen.best, ListConfig) else None
        levels = chosen.levels or 1
        best = BestReturn(len(lengths), given=given, gamma=reward.gamma, floor=chosen.floor, levels=levels)
    own = shown.get("mini_done", None) is not None
    seeds = None if chosen.levels is None or own else range(chosen.levels)
    meta = MetaEpisodes(1 if own else rounds, together=True, group=group, levels=seeds)
    if own and group > 1:
        raise ConfigError(
            f"reward.counting=averaged, and {title(base)} plays mini-episodes of its own, one after the other; use "
            "reward.counting=sequential"
        )
    if cfg.policy.private_bits:
        bits = PrivateBits(cfg.policy.private_bits)
    env = TransformedEnv(base, Compose(*(each for each in (timer, best, meta, bits) if each is not None)))
    known = [str(key) for key in shown.keys(True, True)]
    observed = chosen.observed or (["observation"] if {"observation", "mini_len"} <= {*known} else known)
    if absent := [key for key in observed if shown.get(key, None) is None]:
        raise ConfigError(
            f"env.observed with '{absent[0]}', and {title(base)} shows {', '.join(known)}; choose some of these"
        )
    flatten = Flatten(env, [*observed, *(["timer"] if isinstance(timer, ShutdownTimer) else [])])
    actions, ask = _actions(env), None
    env.append_transform(flatten)
    if isinstance(bounded := env.full_action_spec["action"], Bounded):
        env.append_transform(Squash(bounded.space.low, bounded.space.high))
    if isinstance(timer, ShutdownTimer) and len(lengths) > 1 and not callable(timer.control):
        ask = 1 - 0.5 ** (1 / (timer.window or lengths[0]))
    return RowEnvironment(
        env=env,
        ends=meta,
        sees=SEEN,
        actions=actions,
        num_lengths=len(lengths),
        private_bits=cfg.policy.private_bits,
        flatten=flatten,
        best=best,
        lengths=lengths,
        ask=ask,
    )


def base_environment(chosen: EnvConfig, copies: int, *, render_mode: str | None = None) -> EnvBase:
    """Return so many copies of the environment itself, as one of batch size [copies]."""
    alone = render_mode is not None or (chosen.workers and copies % chosen.workers)  # evaluation may need fewer
    workers = 0 if alone else chosen.workers
    mode = {} if render_mode is None else {"render_mode": render_mode}
    if chosen.name == "gymnasium":
        from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch

        if chosen.id is None:
            raise ConfigError("env=gymnasium without env.id; give the id of an environment, such as CartPole-v1")
        made: Any = chosen.id
        options = {str(key): value for key, value in chosen.options.items()} | mode
        if ":" in chosen.id:
            search_here()
        if chosen.id.startswith(("MiniGrid-", "BabyAI-")):
            from drest_torch.envs.interfaces.minigrid import make_minigrid

            made, options = partial(make_minigrid, chosen.id, **options), {}
        return GymnasiumBatch(made, copies, workers=workers, options=options)
    if chosen.factory is None:
        raise ConfigError("env=torchrl without env.factory; give a function that makes it, as package.module:function")
    named = f"env.factory={chosen.factory}"
    with blaming(named):
        make = function(chosen.factory, "env.factory")
    return copies_of_factory(make, chosen, copies, mode)


def copies_of_factory(make: Callable[..., Any], chosen: EnvConfig, copies: int, mode: Mapping[str, str]) -> EnvBase:
    """Return so many copies of what a function makes, which `env.factory` names."""
    named = f"env.factory={chosen.factory}"
    alone = "render_mode" in mode or (chosen.workers and copies % chosen.workers)
    workers = 0 if alone else chosen.workers
    with blaming(named):
        takes, given = inspect.signature(make).parameters, {"copies": copies, **mode}
        make = partial(make, **{key: value for key, value in given.items() if key in takes})
        first = make()
    if "gymnasium" in sys.modules and isinstance(first, sys.modules["gymnasium"].Env):
        from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch

        first.close()
        return GymnasiumBatch(make, copies, workers=workers)
    if not isinstance(first, EnvBase):
        raise ConfigError(
            f"env.factory={chosen.factory} returns a {type(first).__name__}; expected a TorchRL EnvBase or a "
            "Gymnasium Env"
        )
    if tuple(first.batch_size) not in ((), (copies,)):
        raise ConfigError(
            f"{named} makes {' x '.join(map(str, first.batch_size))} slots, and {copies} are wanted; set "
            f"env.copies={first.batch_size.numel()}, or let it make one without a batch size"
        )
    if chosen.workers not in ((0,) if first.batch_size else (0, copies)):
        raise ConfigError(
            f"env.workers={chosen.workers}, and each copy of a TorchRL environment has a process of its own, unless "
            f"{named} makes all in one; use env.workers={0 if first.batch_size else copies}"
        )
    if first.batch_size:
        return first
    first.close()
    with blaming(named):
        batch = ParallelEnv(copies, make) if chosen.workers and not mode else SerialEnv(copies, make)
    batch.name = title(first)
    return batch


def _timer(chosen: EnvConfig, base: EnvBase, *, skip: bool) -> ShutdownTimer | None:
    if chosen.base is None:
        return None
    control: Any = chosen.control
    if control == "auto":
        discrete = is_choice(base.full_action_spec.get("action", None), len(base.batch_size))
        control = "action" if discrete else "dimension"
    elif control not in ("action", "dimension"):
        named = f"env.control={control}"
        with blaming(named):
            control = blaming(named)(function(control, "env.control"))
    return ShutdownTimer(
        chosen.base,
        list(chosen.delays),
        control=control,
        idle=chosen.idle,
        window=chosen.window,
        cost=chosen.cost,
        ended=cast(Any, chosen.ended),
        skip=skip and chosen.ended == "absorb",
    )


def _lengths_of(base: EnvBase) -> int:
    """Return k of an environment that has lengths of its own."""
    spec = base.observation_spec.get("mini_len", None)
    if not isinstance(spec, Categorical):
        raise ConfigError(
            f"env.base=null, and {title(base)} does not say what length a mini-episode had; declare "
            "mini_len=Categorical(k, shape=(*batch, 1)) in its observation_spec, or set env.base and env.delays"
        )
    return int(spec.space.n)


def _actions(env: EnvBase) -> ActionKind:
    spec = env.full_action_spec["action"]
    if is_choice(spec, len(env.batch_size)):
        return one_of(spec.space.n, one_hot=isinstance(spec, OneHot))
    if (counts := choices(spec, len(env.batch_size))) is not None:
        return several(counts)
    if isinstance(spec, Bounded) and spec.ndim == len(env.batch_size) + 1:
        low, high = (end.reshape(-1, spec.shape[-1])[0].float() for end in (spec.space.low, spec.space.high))
        if torch.isfinite(low).all() and torch.isfinite(high).all():
            return box(low, high)
    raise ConfigError(
        f"{title(env)} has the action space {type(spec).__name__}{tuple(spec.shape)}; expected one of n actions, "
        "several such choices, or a vector of numbers with finite bounds"
    )
