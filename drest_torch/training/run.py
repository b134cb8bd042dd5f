"""The training loop of all algorithms: update, evaluate, log and save until all steps are done."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from drest_torch import hints
from drest_torch.agents.checkpoints import (
    BEST,
    State,
    algorithm_tensors,
    check_origin,
    explain_misfit,
    fill,
    load_checkpoint,
    prefixed,
    prune,
    restore_algorithm,
    save_checkpoint,
    step_checkpoints,
    step_path,
)
from drest_torch.algos import ALGORITHMS
from drest_torch.algos.base import Algorithm
from drest_torch.algos.networks.precision import chosen_precision, refuse_slow, supports_bfloat16
from drest_torch.config.checks import check_run, check_unread, device_of
from drest_torch.config.schema import Config
from drest_torch.config.stored import load_config, trust_modules_of, write_config
from drest_torch.errors import CheckpointError, ConfigError, UserError
from drest_torch.evaluation.memory_guard import free_memory
from drest_torch.files import unlock_folder, write_json
from drest_torch.outputs import refuse_links, refuse_taken
from drest_torch.reward import Reward
from drest_torch.tasks import TASKS
from drest_torch.tasks.base import Task
from drest_torch.tasks.gridworlds import GridworldTask
from drest_torch.tracking.progress import Progress
from drest_torch.tracking.provenance import append_provenance, provenance
from drest_torch.tracking.sinks import Loggers, RunInfo
from drest_torch.tracking.stages import stage
from drest_torch.training.early_stopping import early_end, is_best, refuse_longer
from drest_torch.training.folder import (
    CHECKPOINTS,
    absolute_inputs,
    count_evaluations,
    enter,
    hashes,
    lengthen,
    withdraw,
)
from drest_torch.training.interruption import interruptible
from drest_torch.training.overwriting import discard, may_overwrite, recover, set_aside, undo
from drest_torch.training.plan import (
    RunPlan,
    budget_notes,
    few_updates,
    introduction,
    pace_of,
    plan_of,
    run_summary,
    selection_score,
)

Callback = Callable[[int, dict[str, float]], Any]
"""A function that is called with the steps so far and the metrics."""
WITH_RESUME = ("resume", "env_steps", "progress")
"""The keys that can change when a run is resumed; all others come from the run's configuration."""


class Run:
    """One training run and its folder: a plan, a task, an algorithm, and the loop that trains, evaluates and saves."""

    def __init__(self, plan: RunPlan, task: Task, algorithm: Algorithm, folder: Path) -> None:
        self.plan, self.task, self.algorithm, self.folder = plan, task, algorithm, folder
        self.cfg, self.device, self.rng = task.cfg, task.device, algorithm.rng
        self.state = State()
        self.callbacks: Sequence[Callback] = ()
        """Functions that are called before training and after each update."""
        self.is_new = False
        """True if the run is new, so that its files can be deleted if it cannot start."""
        self.pace = pace_of(algorithm)
        self.memory = task.memory(algorithm)
        """The estimate of its memory, if there is one."""

    @property
    def reward(self) -> Reward:
        """The reward at the end of training."""
        return self.task.reward

    @property
    def gridworlds(self) -> GridworldTask:
        """The task of a run that plays gridworlds."""
        assert isinstance(self.task, GridworldTask)
        return self.task

    @property
    def is_out_of_patience(self) -> bool:
        """True after so many evaluations without a better selection score that training ends."""
        patience = self.plan.patience
        return patience is not None and self.state.evaluations_since_best >= patience

    # ------------------------------------------------------------------------------------ the loop

    def train(self) -> dict[str, Any] | None:
        """Train to the end and return the summary, or None if the run was interrupted (and saved)."""
        try:
            return self._train()
        finally:
            self.task.close()
            unlock_folder(self.folder)

    def _train(self) -> dict[str, Any] | None:
        plan, state, pace = self.plan, self.state, self.pace
        session = provenance(self.device, state.steps)
        append_provenance(self.folder, session)
        self._introduce()
        began = time.monotonic() - state.wall_seconds
        began_processor = time.process_time() - state.processor_seconds
        stream = sys.stderr if plan.progress else io.StringIO()
        info = RunInfo(self.folder, plan.logger, plan.values, state.wandb_id, provenance=session)
        with (
            self._loggers(info) as loggers,
            Progress(plan.steps, pace, done=state.steps, title=self.folder.name, stream=stream) as progress,
            interruptible() as interrupted,
        ):
            state.wandb_id = loggers.run_id
            discard(self.folder)
            if state.steps == 0:
                for warning in budget_notes(plan, self.algorithm):
                    progress.note(f"drest_torch: {warning}")
                progress.stage("evaluating before training …")
                metrics = self.task.watch(self.algorithm.evaluated_policy)
                loggers.log(0, metrics)
                self._tell(metrics)
                progress.stage("training …")
            else:
                progress.stage(f"training on after {pace.text(state.steps)} …")
            while state.steps < plan.steps and not self.is_out_of_patience:
                metrics = self.update()
                if state.updates == 1 and (note := few_updates(plan, self.algorithm, state.steps)):
                    progress.note(f"drest_torch: {note}")
                state.wall_seconds = time.monotonic() - began
                state.processor_seconds = time.process_time() - began_processor
                metrics["time/wall_seconds"] = state.wall_seconds
                if is_due := self._evaluation_is_due():
                    metrics |= self.task.watch(self.algorithm.evaluated_policy)
                # Log before saving: a resumed run then finds every line up to its checkpoint.
                loggers.log(state.steps, metrics)
                progress.update(state.steps, metrics)
                if is_due:
                    self._save_best(metrics)
                    self.save()
                self._tell(metrics)
                if interrupted() and state.steps < plan.steps and not self.is_out_of_patience:
                    self.save()
                    loggers.interrupt()
                    command = plan.resume_command(self.folder)
                    progress.end(f"Stopped after {pace.text(state.steps)} and saved. Resume with: {command}")
                    return None
            if early := early_end(plan.patience, plan.steps, state):
                progress.note(f"drest_torch: ended early after {pace.text(state.steps)}: {early}")
            progress.stage("evaluating what was learned …")
            return self._report(loggers)

    def _introduce(self) -> None:
        """Print a description of the run, and a warning if rewards have to be clipped."""
        lines = introduction(self.plan, self.task, self.algorithm, self.folder, memory=self.memory)
        stage(lines, enabled=self.plan.progress)
        if warning := self.algorithm.warning(self.reward):
            print(f"drest_torch: {warning}", file=sys.stderr)

    def _loggers(self, info: RunInfo) -> Loggers:
        """Return the run's loggers; if they cannot start, delete the files of a new run."""
        try:
            return Loggers(info, self.state.steps)
        except UserError:
            if self.is_new:
                withdraw(self.folder)
                undo(self.folder)
            raise

    def update(self) -> dict[str, float]:
        """Make one update, and return its metrics."""
        state, algorithm = self.state, self.algorithm
        progress = state.steps / self.plan.steps
        algorithm.set_progress(progress)
        if self.plan.cuts:
            algorithm.limit(self.plan.steps - state.steps, state.steps_per_turn)
        reward = self.reward.at(progress)
        scheduled = {"reward/episodes_per_meta": reward.episodes_per_meta, **algorithm.scheduled()}
        try:
            metrics = scheduled | _numbers(algorithm.update(reward))
        except UserError as error:
            remedy = self.task.after_failure(self.plan.resume_command(self.folder))
            raise type(error)(f"{error}{remedy}") from error
        state.add(algorithm.effort)
        if algorithm.effort.forward_rows:
            metrics |= {"rows/forward": state.forward_rows, "rows/backward": state.backward_rows}
        self._refuse_nan(metrics)
        return metrics

    def _evaluation_is_due(self) -> bool:
        """Return True if an evaluation is due, and record it as done."""
        plan, state = self.plan, self.state
        due = min(state.steps, plan.steps) * plan.evaluations // plan.steps
        is_due = due > state.evaluated
        if is_due:
            state.evaluated = due
        return is_due

    def _refuse_nan(self, metrics: dict[str, float]) -> None:
        """Raise if metrics are not finite, before the algorithm's weights are saved."""
        algorithm = self.algorithm
        bad = {name: metrics[name] for name in algorithm.finite if not math.isfinite(metrics.get(name, 0.0))}
        if bad:
            listed = ", ".join(f"{name} {value:g}" for name, value in bad.items())
            last = "no checkpoint was saved yet"
            if saved := step_checkpoints(self.checkpoints):
                last = f"the last good checkpoint is {saved[-1]}"
            raise ConfigError(
                f"training produced numbers that are not finite in update {self.state.updates} ({listed}): "
                f"{algorithm.if_not_finite}; {last}"
            )

    def _tell(self, metrics: dict[str, float]) -> None:
        for callback in self.callbacks:
            callback(self.state.steps, metrics)

    def _report(self, loggers: Loggers) -> dict[str, Any]:
        """Evaluate on all levels; write the summary, the values of every level and the pictures."""
        splits, pictures = self.task.judge(self.algorithm.evaluated_policy, self.folder)
        summary = run_summary(self.plan, self.task.counts(self.state), self.state, self.pace)
        summary |= {"splits": splits, "sha256": hashes(self.folder, splits)}
        if self.plan.pictures:
            from drest_torch.plots.curves import learning_curves  # imports matplotlib, which takes a while

            pictures["learning"] = self.folder / "pictures" / "learning.png"
            learning_curves(self.folder, pictures["learning"], summary)
        for name, path in pictures.items():
            loggers.picture(name, path)
        write_json(self.folder / "summary.json", summary)  # the last file: with it, a run is complete
        final: dict[str, float] = {}
        for split, metrics in summary["splits"].items():
            final |= {f"{split}/{name}": value for name, value in metrics.items() if isinstance(value, float)}
        loggers.summary(final)
        return summary

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.folder / CHECKPOINTS

    def save(self) -> None:
        """Save a checkpoint, and delete old ones."""
        self._write(step_path(self.checkpoints, self.state.steps))
        prune(self.checkpoints, self.plan.keep_last)

    def _save_best(self, metrics: dict[str, float]) -> None:
        """Save a checkpoint if it is the best one so far on the selection levels, which are not reported."""
        if self.task.selection is None:
            return
        if is_best(self.state, selection_score(metrics, "selection")):
            self._write(self.checkpoints / BEST)

    def _write(self, path: Path) -> None:
        tensors = algorithm_tensors(self.algorithm) | prefixed("task", self.task.tensors())
        meta = asdict(self.state) | {"of": self.task.saved_with()} | self.task.described()
        save_checkpoint(path, tensors | {"generator": self.rng.get_state()}, meta)

    def _describe(self) -> None:
        """Add the specification of the agent to checkpoints of earlier versions."""
        for path in (*step_checkpoints(self.checkpoints), self.checkpoints / BEST):
            if path.is_file():
                tensors, meta = load_checkpoint(path)
                save_checkpoint(path, tensors, self.task.described() | meta)

    def begin(self, write: Callable[[], None], *, overwrites: bool = False) -> None:
        """Start in a new folder, to which ``write`` writes the configuration; refuse the folder of another run.

        If it ``overwrites`` that run, its files are set aside, and deleted when training begins.
        """
        self.task.begin(self.algorithm.policy)
        enter(self.folder)
        with set_aside(self.folder, enabled=overwrites):
            # Another process may have begun a run meanwhile.
            refuse_taken(self.folder, self.plan.resume_command, writes=self.task.writes)
            write()
            self.task.keep(self.folder, anew=True)
        self.is_new = True

    def restore(self) -> None:
        """Restore the last checkpoint, or restart a run that was killed before its first checkpoint."""
        self.task.keep(self.folder, anew=False)
        saved = step_checkpoints(self.checkpoints)
        if not saved:
            self._begin_again()
            return
        path, described = saved[-1], self.task.described()
        tensors, meta = load_checkpoint(path)
        check_origin(meta.pop("of", {}), self.task.origin(), path)
        is_described = described.keys() <= meta.keys()
        progress = {name: value for name, value in meta.items() if name not in described}
        with explain_misfit(path):
            restore_algorithm(self.algorithm, tensors, path)
            fill(prefixed("task", self.task.tensors()), tensors, path)
            self.rng.set_state(tensors["generator"].clone())
            self.state = State.of(progress)
        prune(self.checkpoints, self.plan.keep_last)  # the run may have been killed before pruning
        if not is_described:
            self._describe()

    def _begin_again(self) -> None:
        """Restart the run; refuse if it has trained, because its checkpoints are missing then."""
        if (self.folder / "summary.json").exists() or count_evaluations(self.folder / "metrics.jsonl") > 2:
            raise CheckpointError(
                f"{self.checkpoints}: no checkpoint in it, though the run has trained; put its checkpoints back, "
                "or train anew with another run_dir"
            )
        self.task.begin(self.algorithm.policy)


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Convert metrics to numbers, averaged over agents, with a single transfer from the device."""
    tensors = {name: value for name, value in metrics.items() if isinstance(value, Tensor)}
    if not tensors:
        return metrics
    means = torch.stack([value.double().mean() for value in tensors.values()])
    return metrics | dict(zip(tensors, means.tolist(), strict=True))


def generator(seed: int, device: str, threads: int | None) -> torch.Generator:
    """Return the random generator of a run on a device, and set the number of threads; None: torch's default."""
    if threads is not None:
        torch.set_num_threads(threads)
    return torch.Generator(device_of(device)).manual_seed(seed)


def run_of(cfg: Config, folder: Path) -> Run:
    """Return the untrained run of a configuration."""
    rng = generator(cfg.seed, cfg.device, cfg.threads)
    task = TASKS.make(cfg, rng)
    algorithm = ALGORITHMS[cfg.algo.name].Algorithm.on(task, cfg.algo, rng)
    run = Run(plan_of(cfg), task, algorithm, folder)
    if run.memory is not None:
        run.memory.check(free_memory())
    return run


def start(cfg: Config) -> Run:
    """Create a run in a new folder; refuse the folder of an earlier run, unless the run overwrites it."""
    check_run(cfg)
    check_unread(cfg)
    folder = Path(cfg.run_dir)
    overwrites = may_overwrite(cfg.run_dir, cfg.overwrite, hints.resume, reads=absolute_inputs(cfg))
    cfg.overwrite = False
    trust_modules_of(OmegaConf.to_container(OmegaConf.structured(cfg)))
    device = device_of(cfg.device)
    cfg.device = str(device)  # device and precision stay the same on any machine that resumes the run
    refuse_slow(cfg.precision, device)
    cfg.precision = chosen_precision(cfg.precision, device, cfg.policy.width)
    run = run_of(cfg, folder)
    run.begin(lambda: write_config(cfg, folder), overwrites=overwrites)
    return run


def resume(folder: Path, *, env_steps: int | None = None, progress: bool | None = None) -> Run:
    """Load a run from its folder and restore its last checkpoint; more ``env_steps`` extend it."""
    recover(folder)
    cfg = load_config(folder)
    is_longer = env_steps is not None and lengthen(cfg, env_steps, folder)
    if progress is not None:
        cfg.progress = progress
    refuse_links(folder)
    check_run(cfg)
    enter(folder)
    run = run_of(cfg, folder)
    run.restore()
    if run.algorithm.precision == torch.bfloat16 and not supports_bfloat16(run.device):
        print(f"drest_torch: {folder} learns in bfloat16, which is slow on this machine", file=sys.stderr)
    if is_longer:  # from here on the run is incomplete
        refuse_longer(early_end(run.plan.patience, run.plan.steps, run.state), folder)
        (folder / "summary.json").unlink(missing_ok=True)
        write_config(cfg, folder)
    return run


def start_or_resume(cfg: Config, keys: Collection[str]) -> Run:
    """Create the run of a configuration, or resume the run that it names; ``keys`` were set by the user."""
    if cfg.resume is None:
        return start(cfg)
    if others := sorted(set(keys) - set(WITH_RESUME)):
        raise ConfigError(
            f"{others[0]} with resume={cfg.resume}, whose own configuration applies except for env_steps and progress; "
            "leave it out, or train anew in another run_dir"
        )
    changes: dict[str, Any] = {key: getattr(cfg, key) for key in ("env_steps", "progress") if key in keys}
    return resume(Path(cfg.resume), **changes)
