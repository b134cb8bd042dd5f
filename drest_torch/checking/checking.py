"""Check an environment before an agent is trained in it: what is wrong, in one sentence each, and what it offers."""

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
from drest_torch.checking.checked import Checked
from drest_torch.config.checks import check_limits
from drest_torch.config.schema import CheckConfig, EnvConfig
from drest_torch.errors import ConfigError
from drest_torch.play.third_party import base_environment, copies_of_factory
from drest_torch.transforms.base import title

COPIES = 16
"""Copies that play side by side, if their number is not given."""


def check_env(
    env: str | Callable[..., Any] | EnvBase, *, episodes: int = 256, steps: int = 10_000, seed: int = 0, **values: Any
) -> Checked:
    """Check an environment before an agent is trained in it, as ``drest check`` does.

    Args:
        env: the id of a Gymnasium environment, a function that makes an environment of Gymnasium or TorchRL, its path
            ``module:function``, or a TorchRL environment of batch size [n].
        episodes: the mini-episodes of random play.
        steps: the steps of random play, at most.
        seed: of everything that is sampled.
        values: values of `env` by name, such as ``base=50, delays=[50]``.

    Returns:
        what was found, which prints as a table; ``problems`` has a sentence for each thing that is wrong.

    Example:
        >>> from drest_torch.envs.tasks.queue import make
        >>> checked = check_env(make, base=5, delays=[5], episodes=64)
        >>> checked.problems
        []
        >>> [row.length for row in checked.lengths]
        [5, 10]
    """
    name = env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)
    chosen: dict[Any, Any] = {**values, **_place_of(env, name), "title": name}
    env_cfg = OmegaConf.merge(OmegaConf.structured(EnvConfig), chosen)
    cfg: Any = OmegaConf.merge(
        OmegaConf.structured(CheckConfig),
        {"env": env_cfg, "episodes": episodes, "steps": steps, "seed": seed},
    )
    check_limits(cfg)
    if isinstance(env, str):
        return checked(cfg)
    if not isinstance(env, EnvBase):
        return checked(cfg, copies_of_factory(env, cfg.env, cfg.env.copies or COPIES, {}))
    if len(env.batch_size) != 1:
        raise ConfigError(
            f"check_env with a {title(env)} of batch size {tuple(env.batch_size)}; give a function that makes one, "
            "so that copies can be compared"
        )
    return checked(cfg, env)


def _place_of(env: Any, name: str) -> dict[str, str]:
    """Return the values of `env` that say where an environment comes from."""
    has_version = re.search(r"-v\d+$", name) is not None
    if isinstance(env, str) and (has_version or ":" not in name):
        return {"name": "gymnasium", "id": name}
    return {"name": "torchrl", "factory": name}


def checked(cfg: CheckConfig, base: EnvBase | None = None) -> Checked:
    """Check the environment of a configuration, or this one."""
    env = base
    if env is None:
        env = base_environment(cfg.env, cfg.env.copies or COPIES)
    cfg = copy.deepcopy(cfg)
    if env.observation_spec.get("mini_len", None) is not None:
        cfg.env.base = None  # it has lengths of its own
    copies = env.batch_size.numel()
    found = Checked(f"{title(env)}: {copies} copies, {cfg.episodes:,} mini-episodes of random play, seed {cfg.seed}")
    try:
        with torch.random.fork_rng():
            if check_specs(found, env, cfg.seed):
                is_random = check_seeds(found, env, cfg.seed)
                if not is_random:
                    check_copies(found, env, cfg.seed)
                check_play(found, env, cfg, is_random=is_random)
    finally:
        if base is None:
            env.close(raise_if_closed=False)
    return found
