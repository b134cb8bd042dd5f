"""Reference agents: one for each length, with that length alone, whose mean return is m(l) of the run (`env.best`)."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from drest_torch.config.schema import Config
from drest_torch.config.stored import write_config
from drest_torch.errors import ConfigError
from drest_torch.tracking.stages import stage
from drest_torch.training.run import Run

FOLDER = "references"


def reference_best(cfg: Config, lengths: Sequence[int], folder: Path) -> Tensor | None:
    """Return m(l) [levels, k]: train the reference agents that are not there yet, or go on where they stopped.

    Their runs are in ``references/LENGTH`` of the run's folder. None: it was interrupted, and has saved.
    """
    found = []
    for index, length in enumerate(lengths):
        own = folder / FOLDER / str(length)
        if not (own / "summary.json").exists():
            stage(
                f"training a reference agent for {length} steps ({index + 1} of {len(lengths)}) …", shown=cfg.progress
            )
            if _train(_config(cfg, length), own, folder) is None:
                return None
        found.append(_returns(own, length))
    return torch.tensor(found).T


def _config(cfg: Config, length: int) -> Config:
    """Return the configuration of a reference agent. With a single length, nothing is discounted."""
    own = copy.deepcopy(cfg)
    own.env.base, own.env.delays, own.env.best = length, [], None
    own.env_steps = cfg.env.reference_steps or cfg.env_steps
    own.logger.sinks, own.pictures = {}, 0
    return own


def _train(cfg: Config, folder: Path, of: Path) -> object | None:
    cfg.run_dir = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_config(cfg, folder)
    run = Run(cfg, folder)
    run.resumed_by = of
    run.restore()
    try:
        return run.train()
    finally:
        run.task.close()


def _returns(folder: Path, length: int) -> list[float]:
    """Return the mean returns of a reference agent, level by level."""
    levels = json.loads((folder / "levels_test.json").read_text(encoding="utf-8"))
    returns = [float(level["return_given_length"][str(length)]) for level in levels]
    if min(returns) <= 0:
        raise ConfigError(
            f"{folder}: the reference agent for {length} steps has a mean return of {min(returns):g}, and m(l) must be "
            "above 0; train it for longer (env.reference_steps), or give env.floor, a lower bound of the rewards"
        )
    return returns
