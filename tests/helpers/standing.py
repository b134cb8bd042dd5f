"""Checks that a change of the project leaves earlier agents unchanged, and that earlier runs can be resumed."""

import shutil
from pathlib import Path
from typing import Any

from drest_torch.agent import Agent
from tests.helpers.runs import same_run

Scores = dict[str, list[float]]


def scores(run: Path) -> Scores:
    """Return the usefulness and neutrality of the shipped agent and of a run in the example world."""
    agents = {"generalist": Agent.load("generalist"), "earlier run": Agent.load(run)}
    results = {name: agent.evaluate("example") for name, agent in agents.items()}
    return {name: [result.usefulness, result.neutrality] for name, result in results.items()}


def cut_back(run: Path, to: Path) -> Path:
    """Copy a run as if it had been killed after its first checkpoint."""
    shutil.copytree(run, to)
    for path in sorted((to / "checkpoints").glob("step-*"))[1:]:
        path.unlink()
    (to / "summary.json").unlink()
    return to


def check_goes_on(run: Path, resume: Any) -> None:
    """Check that a run resumed from its first checkpoint has the metrics and weights of the complete run."""
    cut = cut_back(run, run.with_name("cut"))
    resume(cut)
    assert (cut / "summary.json").exists()
    same_run(run, cut)
