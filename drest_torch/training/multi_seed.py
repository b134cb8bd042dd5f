"""Several agents that one run trains together. Each has a folder in which it is a run of its own: it can be evaluated,
and gone on with, by itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from algos.base import Learner
from algos.networks.stacked import Stacked
from drest_torch.config.schema import Config
from drest_torch.config.stored import write_config
from drest_torch.tracking.sinks import JsonLines
from drest_torch.training import levels as data
from drest_torch.training.checkpoints import module_tensors, optimizer_tensors

FOLDER = "agents"
"""In a run's folder, that of the agents."""


class Together:
    """One of several agents of a run."""

    def __init__(self, run: Path, cfg: Config, index: int) -> None:
        self.index, self.seed = index, cfg.seed + index
        self.folder = run / FOLDER / str(self.seed)
        self.cfg = copy.deepcopy(cfg)
        self.cfg.agents, self.cfg.seed, self.cfg.lockstep = 1, self.seed, True
        self.cfg.run_dir = str(self.folder)

    def begin(self, levels: data.Levels, steps: int) -> None:
        """Keep its metrics from this step on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_config(self.cfg, self.folder)
        data.write_split(levels, self.cfg, self.folder)
        self._lines = JsonLines(self.folder / "metrics.jsonl", steps)

    def log(self, steps: int, metrics: Mapping[str, float]) -> None:
        self._lines.log(steps, metrics)

    def tensors(self, learner: Learner) -> dict[str, Tensor]:
        """Its part of a checkpoint, as a run of its own saves it."""
        tensors = module_tensors("policy", learner.policy.agent(self.index))
        if learner.critic is not None:
            tensors |= module_tensors("critic", learner.critic.agent(self.index))
        for name, optimizer in learner.optimizers.items():
            for key, value in optimizer_tensors(f"optimizer.{name}", optimizer).items():
                tensors[key] = value[self.index] if value.ndim else value
        return tensors | {"generator": learner.draws.generators[self.index].get_state()}


def joined(networks: Sequence[Any], device: torch.device) -> Any:
    """The networks of a run's agents as the learner has them, or None if it has none."""
    if networks[0] is None:
        return None
    network: nn.Module = networks[0] if len(networks) == 1 else Stacked(networks)
    return network.to(device)


def mean(of_each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same numbers, nested alike, as means over agents; what is no such number is the first agent's."""
    first = of_each[0]
    found = {}
    for name, value in first.items():
        values = [each[name] for each in of_each]
        if isinstance(value, dict):
            found[name] = mean(values)
        else:
            found[name] = sum(values) / len(values) if isinstance(value, float) else value
    return found
