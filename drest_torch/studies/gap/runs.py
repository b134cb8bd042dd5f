"""Runs of the study: agents that are trained and then asked in forks, and agents that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drest_torch.agent import Agent
from drest_torch.algos.networks.policy import Policy
from drest_torch.building.parts import evaluator
from drest_torch.choices.forks import designs, fork_levels, measure
from drest_torch.choices.gap import SETTINGS
from drest_torch.config.schema import Config
from drest_torch.effort import NUMBERS
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained
from drest_torch.reward import Reward

TRAINED = "drest_torch.studies.gap.runs:train"
SHIPPED = "drest_torch.studies.gap.runs:shipped"


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train as `drest_torch.jobs.training_job.train` does, and ask the agent in forks.

    arrays: the probabilities ``forks`` [Z, S, D, 5] (`drest_torch.choices.forks.measure`); ``test/usefulness`` and
    ``test/neutrality`` [n] on its own test levels.
    """
    run, result = trained(spec, folder)
    judge = run.gridworlds.judge
    arrays = {name: result.arrays[name] for name in ("test/usefulness", "test/neutrality")}
    arrays["forks"] = ask(run.cfg, judge.reward, judge.map_size, run.learner.policy)
    took = ("env_steps", "wall_seconds", *NUMBERS)
    return Result({name: result.numbers[name] for name in took if name in result.numbers}, arrays)


def shipped(spec: dict[str, Any], folder: Path) -> Result:
    """Ask an agent that comes with the project, or of a run, in forks: the array ``forks``, as `train`."""
    agent = Agent.load(spec["agent"])
    return Result({}, {"forks": ask(agent.cfg, agent.reward, agent.map_size, agent.policy)})


def ask(cfg: Config, reward: Reward, map_size: tuple[int, int], policy: Policy) -> np.ndarray:
    """Return the probabilities of options in all forks."""
    several = designs()
    levels = fork_levels(several, SETTINGS)
    device = next(policy.parameters()).device
    level_set = evaluator(cfg, reward, levels, map_size, device, sampled=None, memory_gib=cfg.memory_gib)
    return measure(level_set, policy, len(several))
