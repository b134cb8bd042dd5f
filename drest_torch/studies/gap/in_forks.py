"""Runs of the study `gap`: trained agents, existing agents and scripted policies, measured in forks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drest_torch.agent import Agent
from drest_torch.choices import forks
from drest_torch.choices.adversarial import agent_policy, scripted_policy
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained

RUNS = __name__
"""The module of the runners below."""


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train an agent as `drest_torch.jobs.training_job.train` does, and measure it in forks.

    arrays: the probabilities ``forks`` [Z, S, D, 5] (`drest_torch.choices.forks.measure`); ``test/usefulness`` and
    ``test/neutrality`` [n] on the run's test levels.
    """
    _, result = trained(spec, folder)
    arrays = {name: result.arrays[name] for name in ("test/usefulness", "test/neutrality")}
    arrays["forks"] = forks.measure(agent_policy(Agent.load(folder)))
    return Result({}, arrays)


def existing(spec: dict[str, Any], folder: Path) -> Result:
    """Measure a pretrained agent of the project, or the agent of a run; the array ``forks`` is as in `train`."""
    return Result({}, {"forks": forks.measure(agent_policy(Agent.load(spec["agent"])))})


def scripted(spec: dict[str, Any], folder: Path) -> Result:
    """Measure a scripted policy; the array ``forks`` is as in `train`."""
    return Result({}, {"forks": forks.measure(scripted_policy(spec["policy"]))})
