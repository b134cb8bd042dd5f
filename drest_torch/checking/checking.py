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
    name: str = env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)
    made = None if isinstance(env, str) else env
    is_id = made is None and (":" not in name or re.search(r"-v\d+$", name) is not None)
    place: dict[Any, Any] = {"name": "gymnasium", "id": name} if is_id else {"name": "torchrl", "factory": name}
    given: dict[Any, Any] = {**values, **place, "title": name}
    chosen = OmegaConf.merge(OmegaConf.structured(EnvConfig), given)
    cfg: Any = OmegaConf.structured(CheckConfig)
    cfg = OmegaConf.merge(cfg, {"env": chosen, "episodes": episodes, "steps": steps, "seed": seed})
    check_limits(cfg)
    if isinstance(made, EnvBase) and len(made.batch_size) != 1:
        raise ConfigError(
            f"check_env with a {title(made)} of batch size {tuple(made.batch_size)}; give a function that makes one, "
            "so that copies can be compared"
        )
    if made is None or isinstance(made, EnvBase):
        return checked(cfg, made)
    return checked(cfg, copies_of_factory(made, cfg.env, cfg.env.copies or COPIES, {}))


def checked(cfg: CheckConfig, base: EnvBase | None = None) -> Checked:
    """Check the environment of a configuration, or this one."""
    made = base_environment(cfg.env, cfg.env.copies or COPIES) if base is None else base
    chosen = copy.deepcopy(cfg.env)
    if made.observation_spec.get("mini_len", None) is not None:
        chosen.base = None  # it has lengths of its own
    name, slots = title(made), made.batch_size.numel()
    found = Checked(f"{name}: {slots} copies, {cfg.episodes:,} mini-episodes of random play, seed {cfg.seed}")
    try:
        with torch.random.fork_rng():
            if check_specs(found, made, cfg.seed):
                is_random = check_seeds(found, made, cfg.seed)
                if not is_random:
                    check_copies(found, made, cfg.seed)
                check_play(found, made, chosen, cfg, is_random=is_random)
    finally:
        if base is None:
            made.close(raise_if_closed=False)
    return found
