"""Whether a change of the project leaves alone what was there before it, and can be resumed."""

import shutil
from pathlib import Path
from typing import Any

from drest_torch.agent import Agent
from tests.helpers.runs import same_run

Scores = dict[str, list[float]]


def scores(run: Path) -> Scores:
    """Return usefulness and neutrality of the shipped agent on a world, and those of a run on its own."""
    results = {"generalist": Agent.load("generalist"), "run of before": Agent.load(run)}
    found = {name: agent.evaluate("example") for name, agent in results.items()}
    return {name: [each.usefulness, each.neutrality] for name, each in found.items()}


def cut_back(run: Path, to: Path) -> Path:
    """Copy a run as it was when it was killed after its first checkpoint."""
    shutil.copytree(run, to)
    for path in sorted((to / "checkpoints").glob("step-*"))[1:]:
        path.unlink()
    (to / "summary.json").unlink()
    return to


def check_goes_on(run: Path, resume: Any) -> None:
    """``resume`` the run from its first checkpoint: every line and weight is that of the run that was not killed."""
    cut = cut_back(run, run.with_name("cut"))
    resume(cut)
    assert (cut / "summary.json").exists()
    same_run(run, cut)
