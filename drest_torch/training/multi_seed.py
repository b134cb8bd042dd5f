"""Train several agents, with different seeds, in one run.

Each agent has a folder that is a run of its own: it can be evaluated and resumed by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.base import Learner
from drest_torch.algos.networks.stacked import Stacked
from drest_torch.building.checkpoints import module_tensors, optimizer_tensors
from drest_torch.config.schema import Config
from drest_torch.config.stored import write_config
from drest_torch.tracking.sinks import JsonLines

FOLDER = "agents"
"""The name of the folder of agents, inside the folder of a run."""


class SeedRun:
    """One of several agents of a run."""

    def __init__(self, run: Path, cfg: Config, index: int) -> None:
        self.index, self.seed = index, cfg.seed + index
        self.folder = run / FOLDER / str(self.seed)
        self.cfg = copy.deepcopy(cfg)
        self.cfg.agents, self.cfg.seed, self.cfg.lockstep = 1, self.seed, True
        self.cfg.run_dir = str(self.folder)

    def begin(self, task: Any, steps: int) -> None:
        """Write the folder of the agent and log its metrics from this step on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_config(self.cfg, self.folder)
        task.begin(self.cfg, self.folder)
        self._lines = JsonLines(self.folder / "metrics.jsonl", steps)

    def log(self, steps: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of the agent."""
        self._lines.log(steps, metrics)

    def tensors(self, learner: Learner) -> dict[str, Tensor]:
        """Return the agent's part of a checkpoint, as a run with this agent alone would save it."""
        tensors = module_tensors("policy", learner.policy.agent(self.index))
        if learner.critic is not None:
            tensors |= module_tensors("critic", learner.critic.agent(self.index))
        for name, optimizer in learner.optimizers.items():
            for key, value in optimizer_tensors(f"optimizer.{name}", optimizer).items():
                tensors[key] = value[self.index] if value.ndim else value
        return tensors | {"generator": learner.rng.generators[self.index].get_state()}


def stack_networks(policies: Sequence[Any], critics: Sequence[Any], device: torch.device) -> tuple[Any, Any]:
    """Return the policies of all agents as one, and their critics, or None if they have none."""
    if len(policies) == 1:
        return policies[0].to(device), critics[0] if critics[0] is None else critics[0].to(device)
    policy = Stacked(policies).to(device)
    if critics[0] is None:
        return policy, None
    shared = dict(zip(policies[0].parameters(), policy.weights, strict=True))
    return policy, Stacked(critics, shared).to(device)


def mean(per_agent: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return nested numbers averaged over agents; values that are not floats are those of the first agent."""
    first = per_agent[0]
    means = {}
    for name, value in first.items():
        values = [numbers[name] for numbers in per_agent]
        if isinstance(value, dict):
            means[name] = mean(values)
        else:
            means[name] = sum(values) / len(values) if isinstance(value, float) else value
    return means
