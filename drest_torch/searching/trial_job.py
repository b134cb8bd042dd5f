"""A trial of a search as a job: a training run that reports its evaluations, and ends early if they are bad."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna

from drest_torch.files import read_metrics
from drest_torch.jobs.configured_job import FINISHED, opened
from drest_torch.jobs.job import Job, Result
from drest_torch.searching.journal import open_study
from drest_torch.searching.search_plan import evaluated_split, evaluations_in, score_of
from drest_torch.training.run import Run


class Pruned(Exception):
    """The end of a run whose trial is pruned."""


def trial_job(name: str, spec: dict[str, Any]) -> Job:
    """Return the job of a trial.

    Its spec has the ``config`` of the run, True as ``begins`` if it is new, its ``imports``, the path of the
    ``journal``, the number of the trial in it (``trial_id``), the ``metric``, and ``prune``, True if it may end early.
    """
    return Job(name, "drest_torch.searching.trial_job:train", spec)


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train the run of a trial, or resume it; return the value of its last evaluation, and True if it was pruned."""
    evaluations = int(spec["config"]["evaluations"])
    study = open_study(Path(spec["journal"]), evaluations)
    trial = optuna.trial.Trial(study, spec["trial_id"])
    pruned = False
    if not (folder / FINISHED).is_file():
        run = opened(spec, folder)
        watch = Watch(trial, run, spec["metric"], prune=spec["prune"])
        run.callbacks = (watch,)
        try:
            if run.train() is None:
                raise KeyboardInterrupt  # the run was stopped, and has saved its state
        except Pruned:
            pruned = True
    last = evaluations_in(read_metrics(folder / "metrics.jsonl"))[-1]
    split = evaluated_split(last)
    numbers = {name: last[f"eval/{split}/{name}"] for name in ("usefulness", "neutrality")}
    numbers |= {"value": score_of(spec["metric"], last), "steps": last["step"]}
    return Result({**numbers, "pruned": pruned, "split": split})


class Watch:
    """A callback of a run that reports its evaluations to Optuna, and ends the run if its trial is pruned."""

    def __init__(self, trial: optuna.trial.Trial, run: Run, metric: str, *, prune: bool) -> None:
        self.trial, self.plan, self.metric, self.prune = trial, run.plan, metric, prune

    def __call__(self, steps: int, metrics: Mapping[str, float]) -> None:
        """Report an evaluation, by its number in the run, so that runs with other steps can be compared."""
        if not any(name.startswith("eval/") for name in metrics):
            return
        value = score_of(self.metric, metrics)
        number = min(steps, self.plan.steps) * self.plan.evaluations // self.plan.steps
        if number == 0:  # the untrained policy
            return
        self.trial.report(value, number)
        is_last = steps >= self.plan.steps
        if self.prune and not is_last and self.trial.should_prune():
            raise Pruned
