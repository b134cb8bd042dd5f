"""The launcher of sweeps: one run after the other in this process, or several at once in worker processes.

Hydra's own launcher runs one after the other and ends with the first error. `hydra-joblib-launcher` and
`hydra-submitit-launcher` know neither Ctrl-C that saves a run nor runs that go on.
"""

from __future__ import annotations

import copy
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from drest_torch.commands.sweep import VARIABLES
from drest_torch.commands.sweep_folder import (
    FAILURE,
    add_combination,
    combinations,
    identity,
    record_failure,
    stopped,
    varying,
)
from drest_torch.comparison.records import list_run
from drest_torch.errors import ConfigError, UserError


@dataclass(frozen=True)
class Combination:
    """A run of a sweep that is not finished."""

    name: str
    """The arguments in which it differs from other runs."""
    config: DictConfig
    """The composed configuration, with the part of Hydra."""
    folder: Path
    begins: bool
    """True if the run has not begun; otherwise it resumes in its folder."""


class Runs(Launcher):
    """A launcher with ``workers`` runs at once, which skips finished runs and resumes stopped ones."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the context of the sweep."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Execute the runs with these arguments that are not finished."""
        from drest_torch.files import lock_folder, unlock_folder

        setup_globals()
        sweep = Path(self.config.hydra.sweep.dir)
        lock_folder(sweep, lambda: ConfigError(f"{sweep}: this sweep runs in another process; wait for its end"))
        try:
            planned = self._planned(sweep, job_overrides, initial_job_idx)
            if self.workers > 1:
                self._at_once(planned, len(job_overrides))
            else:
                for combination in planned:
                    self._run(combination)
        except KeyboardInterrupt:
            print(stopped(sweep), file=sys.stderr)
            sys.exit(130)
        finally:
            unlock_folder(sweep)
        return [JobReturn(status=JobStatus.COMPLETED, _return_value=None)]

    def _planned(self, sweep: Path, job_overrides: Sequence[Sequence[str]], first: int) -> Iterator[Combination]:
        """Yield the runs that are not finished, in order; record each before it begins."""
        from drest_torch.jobs.configured_job import FINISHED

        folders = combinations(sweep)
        identities = [identity(overrides) for overrides in job_overrides]
        finished = {words for words in identities if words in folders and (folders[words] / FINISHED).is_file()}
        if finished:
            print(f"drest_torch: {len(finished)} of {len(identities)} runs were finished before", file=sys.stderr)
        for number, (words, overrides) in enumerate(zip(identities, job_overrides, strict=True), start=first):
            if words in finished:
                continue
            config = self._composed(overrides, number)
            is_new = words not in folders
            if is_new:
                folder = Path(os.path.normpath(config.run_dir))
                if folder in folders.values():
                    raise ConfigError(
                        f"run_dir={folder}: several runs of the sweep would have this folder; leave run_dir out, or "
                        f"add the number of the run: 'run_dir={folder}/${{hydra:job.num}}'"
                    )
                if (folder / "config.yaml").is_file() and not config.overwrite:
                    raise ConfigError(
                        f"{folder} holds a run already, which is not of the sweep in {sweep}; choose another run_dir, "
                        "or continue its sweep with hydra.sweep.dir=FOLDER"
                    )
                folders[words] = folder
                add_combination(sweep, words, folder)
            folder = folders[words]
            list_run(sweep, folder)
            (folder / FAILURE).unlink(missing_ok=True)
            with open_dict(config):
                config.run_dir = str(folder)
            begins = is_new or not (folder / "config.yaml").is_file()
            yield Combination(" ".join(varying(words, identities)), config, folder, begins)

    def _composed(self, overrides: Sequence[str], number: int) -> DictConfig:
        """Return the configuration of a run, which interpolations can refer to from now on."""
        config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        HydraConfig.instance().set_config(config)
        return config

    # ------------------------------------------------------------------------------------ one after the other

    def _run(self, combination: Combination) -> None:
        """Execute a run in this process; record its failure, unless it was stopped."""
        config = combination.config
        if not combination.begins:
            with open_dict(config), read_write(config.hydra.overrides):
                config.resume, config.overwrite = str(combination.folder), False
                config.hydra.overrides.task = [f"resume={combination.folder}"]
        try:
            done = run_job(
                task_function=self.task_function,
                config=config,
                job_dir_key="hydra.sweep.dir",
                job_subdir_key="hydra.sweep.subdir",
                hydra_context=self.hydra_context,
            )
        except SystemExit as end:
            if end.code != 2:
                raise
            error = end.__context__ or end
            record_failure(combination.folder, _reason(error), "".join(traceback.format_exception(error)))
            return
        if done.status is JobStatus.FAILED:
            error = done._return_value
            record_failure(combination.folder, _reason(error), "".join(traceback.format_exception(error)))
            traceback.print_exception(error)

    # ------------------------------------------------------------------------------------ several at once

    def _at_once(self, planned: Iterator[Combination], total: int) -> None:
        """Execute runs in worker processes, which share the cores; record failures."""
        from drest_torch.jobs.executor import Finished
        from drest_torch.jobs.job_progress import JobProgress
        from drest_torch.jobs.local import Local
        from drest_torch.training.interruption import STOPS, handling

        folders: dict[str, Path] = {}
        tasks = self._tasks(planned, folders)
        stream = sys.stderr if self.config.progress else io.StringIO()
        with (
            handling(signal.default_int_handler, *STOPS),
            JobProgress(total, title="sweep", stream=stream) as progress,
            closing(Local(self.workers).run(tasks)) as events,
        ):
            for event in events:
                progress(event)
                if isinstance(event, Finished) and event.failure is not None:
                    failure = event.failure
                    record_failure(folders[event.job.digest()], failure.reason, failure.traceback)

    def _tasks(self, planned: Iterator[Combination], folders: dict[str, Path]) -> Iterator[Any]:
        """Yield the job and the folder of each run, and add the folder to ``folders`` by the digest of the job."""
        from drest_torch.jobs.configured_job import configured_job, threads_of
        from drest_torch.registry import trusted_modules

        for combination in planned:
            config = copy.deepcopy(combination.config)
            with open_dict(config):
                del config["hydra"]
                config.progress = False
                if config.threads is None:
                    config.threads = threads_of(self.workers)
            values = OmegaConf.to_container(config, resolve=True)
            job = configured_job(combination.name, values, begins=combination.begins, imports=trusted_modules())
            folders[job.digest()] = combination.folder
            yield job, combination.folder


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def launching(words: Sequence[str]) -> Iterator[list[str]]:
    """Launch the sweep of a training with these arguments; yield the arguments for Hydra.

    Hydra accepts launchers only from packages in `hydra_plugins`, which it loads in all of its programs. Within the
    context, our launcher takes the place of Hydra's own.
    """
    workers, arguments = launcher_arguments(words)
    plugins: Any = Plugins.instance()
    usual = plugins.instantiate_launcher

    def instantiate(**context: Any) -> Launcher:
        if not context["config"].hydra.launcher._target_.endswith(".BasicLauncher"):
            return cast(Launcher, usual(**context))
        launcher = Runs(workers)
        launcher.setup(**context)
        return launcher

    plugins.instantiate_launcher = instantiate
    try:
        yield arguments
    finally:
        plugins.instantiate_launcher = usual


def launcher_arguments(words: Sequence[str]) -> tuple[int, list[str]]:
    """Return the number of runs at once from ``workers=N``, and the other arguments of a training."""
    is_sweep = any(re.match("-m$|--mu", word) for word in words) or "hydra.mode=MULTIRUN" in words
    if is_sweep and all(os.environ.get(variable) for variable in VARIABLES):
        raise UserError(
            f"-m within the W&B sweep {os.environ[VARIABLES[0]]}: each of its runs is one training; leave -m out, and "
            "list the values in the configuration of the sweep"
        )
    workers = 1
    for word in words:
        key, _, value = word.lstrip("+").partition("=")
        if key in ("hydra.sweeper", "hydra/sweeper") and value != "basic":
            raise UserError(f"{word}: training runs have no objective for a sweeper; drest search searches with Optuna")
        if key == "hydra.launcher":
            raise UserError(f"{word}: launches nothing; -m workers=N executes N runs at once")
        if key == "workers":
            if not is_sweep:
                raise UserError(f"{word} is the number of runs of a sweep at once: add -m, or set threads of one run")
            if not re.fullmatch("[1-9][0-9]{0,3}", value):
                raise UserError(f"{word}; expected a number of runs at once, from 1 to 9999")
            workers = int(value)
    return workers, [word for word in words if not word.startswith("workers=")]
