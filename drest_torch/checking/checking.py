"""The check of an environment before training, which `drest check` prints."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import torch
from omegaconf import OmegaConf
from torchrl.envs import EnvBase

from drest_torch.checking.check_play import check_play
from drest_torch.checking.check_steps import check_copies, check_seeds, check_specs
from drest_torch.checking.environment_check import EnvironmentCheck
from drest_torch.config.checks import check_limits
from drest_torch.config.schema import CheckConfig, EnvConfig
from drest_torch.errors import ConfigError
from drest_torch.play.third_party import base_environment, copies_of_factory
from drest_torch.transforms.base import title

COPIES = 16
"""Default number of copies that play in parallel."""


def check_env(
    env: str | Callable[..., Any] | EnvBase, *, episodes: int = 256, steps: int = 10_000, seed: int = 0, **values: Any
) -> EnvironmentCheck:
    """Check an environment before training in it, like ``drest check``.

    Args:
        env: the id of a Gymnasium environment, a function that makes an environment of Gymnasium or TorchRL, its path
            ``module:function``, or a TorchRL environment of batch size [n].
        episodes: the number of mini-episodes of random play.
        steps: the maximum number of steps of random play.
        seed: the seed of all random numbers.
        values: values of the configuration group `env`, such as ``base=50, delays=[50]``.

    Returns:
        the result, which prints as a table; ``problems`` has one sentence for each problem.

    Example:
        >>> from drest_torch.envs.tasks.queue import make
        >>> check = check_env(make, base=5, delays=[5], episodes=64)
        >>> check.problems
        []
        >>> [row.length for row in check.lengths]
        [5, 10]
    """
    name = getattr(env, "__name__", type(env).__name__)
    if isinstance(env, str):
        name = env
    env_values: dict[Any, Any] = {**values, **_source_of(env, name), "title": name}
    env_cfg = OmegaConf.merge(OmegaConf.structured(EnvConfig), env_values)
    cfg: Any = OmegaConf.merge(
        OmegaConf.structured(CheckConfig),
        {"env": env_cfg, "episodes": episodes, "steps": steps, "seed": seed},
    )
    check_limits(cfg)
    if isinstance(env, str):
        return check_environment(cfg)
    if not isinstance(env, EnvBase):
        return check_environment(cfg, copies_of_factory(env, cfg.env, cfg.env.copies or COPIES, {}))
    if len(env.batch_size) != 1:
        raise ConfigError(
            f"check_env with a {title(env)} of batch size {tuple(env.batch_size)}; give a function that makes one, "
            "so that copies can be compared"
        )
    return check_environment(cfg, env)


def _source_of(env: Any, name: str) -> dict[str, str]:
    """Return the values of `env` that name the source of an environment."""
    has_version = re.search(r"-v\d+$", name) is not None
    if isinstance(env, str) and (has_version or ":" not in name):
        return {"name": "gymnasium", "id": name}
    return {"name": "torchrl", "factory": name}


def check_environment(cfg: CheckConfig, base: EnvBase | None = None) -> EnvironmentCheck:
    """Check the environment ``base``, or else the one that the configuration names."""
    env = base
    if env is None:
        env = base_environment(cfg.env, cfg.env.copies or COPIES)
    cfg = copy.deepcopy(cfg)
    if env.observation_spec.get("mini_len", None) is not None:
        cfg.env.base = None  # the environment defines its lengths
    copies = env.batch_size.numel()
    check = EnvironmentCheck(
        f"{title(env)}: {copies} copies, {cfg.episodes:,} mini-episodes of random play, seed {cfg.seed}"
    )
    try:
        with torch.random.fork_rng():
            if check_specs(check, env, cfg.seed):
                is_random = check_seeds(check, env, cfg.seed)
                if not is_random:
                    check_copies(check, env, cfg.seed)
                check_play(check, env, cfg, is_random=is_random)
    finally:
        if base is None:
            env.close(raise_if_closed=False)
    return check
