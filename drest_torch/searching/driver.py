"""The search itself: trials are sampled, trained in processes on this machine, and recorded in a folder."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna
from omegaconf import OmegaConf
from optuna.trial import FrozenTrial, Trial, TrialState

from drest_torch.comparison.records import list_run
from drest_torch.config.checks import check_run
from drest_torch.config.compose import compose
from drest_torch.errors import ConfigError, UserError
from drest_torch.files import LOCK, lock_folder, unlock_folder
from drest_torch.jobs.configured_job import threads_of
from drest_torch.jobs.executor import Finished, Task
from drest_torch.jobs.job_progress import JobProgress
from drest_torch.jobs.local import Local
from drest_torch.outputs import check_outputs, refuse_links
from drest_torch.searching.journal import JOURNAL, open_study, repair, repeated, sampler
from drest_torch.searching.search_plan import SearchPlan
from drest_torch.searching.trial_job import trial_job
from drest_torch.training.interruption import STOPS, handling

PLAN = "plan"
"""The attribute of the study with what must not change when it is continued."""


class Search:
    """A search in its folder; `run` executes the trials that are missing."""

    def __init__(self, plan: SearchPlan) -> None:
        """Open the folder; refuse one that another command has locked, or that holds another search."""
        self.plan, self.folder = plan, plan.folder
        self.journal = (plan.folder / JOURNAL).resolve()  # workers may have another working directory
        self._trials: dict[str, Trial] = {}
        """The trials in execution, by the digest of their jobs."""
        check_outputs(self.journal)
        is_new = not self.journal.is_file()
        if is_new and self.folder.is_dir() and any(path.name != LOCK for path in self.folder.iterdir()):
            raise ConfigError(f"out={self.folder}: holds other files, and no search; choose another folder")
        refuse_links(self.folder, [JOURNAL, "trial-*", "runs.txt"])
        busy = ConfigError(f"out={self.folder}: another process searches there; wait for it, or choose another folder")
        lock_folder(self.folder, lambda: busy)
        try:
            repair(self.journal)
            self.study = open_study(self.journal, 1)  # the driver does not prune
            self._check_plan()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder."""
        unlock_folder(self.folder)

    def _check_plan(self) -> None:
        """Store what must not change, or refuse to continue another search."""
        identity, stored = self.plan.identity(), self.study.user_attrs.get(PLAN)
        if stored is None:
            self.study.set_user_attr(PLAN, identity)
            return
        for key, value in identity.items():
            if stored.get(key) != value:
                before, now = (_words(values, other) for values, other in ((stored[key], value), (value, stored[key])))
                raise ConfigError(
                    f"out={self.folder}: holds a search with other values ({key}: {before} before, {now} now); "
                    "repeat its command, or choose another folder"
                )

    # ------------------------------------------------------------------------------------ trials

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials so far."""
        return self.study.get_trials(deepcopy=False)

    def run(self) -> None:
        """Execute trials until there are as many as planned; a trial that fails does not end the search."""
        settings = self.plan.settings
        stream = sys.stderr if settings.progress else io.StringIO()
        with (
            handling(signal.default_int_handler, *STOPS),
            JobProgress(settings.trials, title="search", stream=stream) as progress,
        ):
            progress.done = progress.done_before = sum(trial.state.is_finished() for trial in self.trials)
            with closing(Local(settings.workers).run(self._tasks())) as events:
                for event in events:
                    progress(event)
                    if isinstance(event, Finished) and (line := self._finish(event)):
                        progress.note(line)

    def _tasks(self) -> Iterator[Task]:
        """Yield the interrupted trials, then new ones, each sampled when a worker is free."""
        for frozen in self.trials:
            if frozen.state is TrialState.RUNNING:
                self.study.sampler = self._sampler(frozen.number)
                yield from self._prepared(Trial(self.study, frozen._trial_id))
        while (number := len(self.trials)) < self.plan.settings.trials:
            self.study.sampler = self._sampler(number)
            yield from self._prepared(self.study.ask())

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        settings = self.plan.settings
        return sampler(settings.sampler, settings.sampler_seed, number)

    def _prepared(self, trial: Trial) -> Iterator[Task]:
        """Sample the values of a trial, and yield its job, unless its value is known or it cannot begin."""
        params = {dimension.key: dimension.suggest(trial) for dimension in self.plan.space}
        earlier = repeated(self.study, params, trial.number)
        if earlier is not None:
            trial.set_user_attr("repeats", earlier.number)
            value = earlier.value if earlier.state is TrialState.COMPLETE else None
            self.study.tell(trial, value, state=earlier.state)
            return
        folder = self.folder / f"trial-{trial.number:03}"
        arguments = self.plan.trial_arguments(params)
        if not any(word.startswith("threads=") for word in arguments):
            arguments.append(f"threads={threads_of(self.plan.settings.workers)}")
        trial.set_user_attr("arguments", arguments)
        trial.set_user_attr("folder", folder.name)
        try:
            cfg = compose(*arguments, values={"run_dir": str(folder), "progress": False})
            check_run(cfg)
        except UserError as error:
            self._fail(trial, str(error))
            return
        spec = {
            "config": OmegaConf.to_container(cfg, resolve=True),
            "begins": not (folder / "config.yaml").is_file(),
            "imports": list(self.plan.imports),
            "journal": str(self.journal),
            "trial_id": trial._trial_id,
            "metric": self.plan.settings.metric,
            "prune": self.plan.settings.prune,
        }
        job = trial_job(f"trial {trial.number} ({self.values(trial.params)})", spec)
        self._trials[job.digest()] = trial
        list_run(self.folder, folder)
        yield job, folder

    def values(self, params: dict[str, Any]) -> str:
        """Return the sampled values of a trial in few characters."""
        words = []
        for dimension in self.plan.space:
            value = params[dimension.key]
            if isinstance(value, float):
                value = f"{value:.4g}"
            words.append(f"{dimension.key}={value}")
        return " ".join(words)

    def _finish(self, event: Finished) -> str:
        """Tell Optuna the result of a trial; return a line about it, unless it failed, which is shown before."""
        trial = self._trials.pop(event.job.digest())
        if event.failure is not None:
            self._fail(trial, event.failure.reason)
            if "ConfigError: metric=" in event.failure.reason:  # no trial can have this value
                raise ConfigError(event.failure.reason.removeprefix("ConfigError: "))
            return ""
        assert event.result is not None
        numbers = event.result.numbers
        for name in ("usefulness", "neutrality", "steps", "split"):
            trial.set_user_attr(name, numbers[name])
        if numbers["pruned"]:
            self.study.tell(trial, state=TrialState.PRUNED)
            return f"{event.job.name}: {numbers['value']:.4f}, pruned after {numbers['steps']:,} steps"
        self.study.tell(trial, numbers["value"])
        return f"{event.job.name}: {numbers['value']:.4f}"

    def _fail(self, trial: Trial, reason: str) -> None:
        trial.set_user_attr("reason", reason)
        self.study.tell(trial, state=TrialState.FAIL)


def _words(values: Any, other: Any) -> str:
    """Return a stored value as text; of a list, the words that are not in the other list."""
    if isinstance(values, list):
        return " ".join(word for word in values if word not in other) or "nothing"
    return str(values)


def folder_of_trial(search: Path, trial: FrozenTrial) -> Path:
    """Return the folder of a trial's run; a repeated trial has none of its own."""
    return search / str(trial.user_attrs.get("folder", ""))
