"""A complete training run as a job: it starts or resumes in its folder, and ends with an evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from drest_torch.config.checks import check_run
from drest_torch.config.compose import compose
from drest_torch.config.schema import Config
from drest_torch.config.stored import stored_values, trust_modules_of, without_new_keys
from drest_torch.errors import ConfigError
from drest_torch.files import read_metrics, write_whole
from drest_torch.jobs.job import Job, Result
from drest_torch.tasks.base import AgentTask
from drest_torch.tracking.effort import NUMBERS, is_exact
from drest_torch.training.run import Run, resume

IN_A_STUDY = (
    *("logger=none", "test.paper=false", "device=cpu", "threads=1"),
    *("keep_last=1", "pictures=0", "progress=false", "last_batch=whole"),
)
"""The arguments of all training runs of studies; a study can override them."""


def run_config(values: Any = None, arguments: Iterable[str] = (), **options: str) -> Config:
    """Return the configuration of `drest train` with these arguments.

    ``options`` choose from groups (``algo="ppo"``) and override the arguments. ``values`` override both.
    """
    choices = [f"{group}={name}" for group, name in options.items()]
    cfg: Config = compose(*merge_arguments(arguments, choices), values=values)
    return cfg


def merge_arguments(*lists: Iterable[str]) -> list[str]:
    """Merge lists of arguments; a later argument replaces an earlier one with the same key."""
    by_key = {}
    for argument in chain(*lists):
        key, equals, _ = argument.partition("=")
        if not equals:
            raise ConfigError(f"study: the argument '{argument}' of a run; expected key=value")
        by_key[key] = argument
    return [*by_key.values()]


def training_jobs(
    label: str, seeds: Iterable[int], values: Any = None, arguments: Iterable[str] = (), **options: str
) -> list[Job]:
    """Return training runs of this configuration (see `run_config`), one for each seed.

    The spec of a run holds the whole configuration, so a changed default gives a different run.
    """
    cfg = run_config(values, merge_arguments(IN_A_STUDY, arguments), **options)
    cfg.run_dir = ""  # the folder does not identify the run
    check_run(cfg)
    config = without_new_keys(stored_values(cfg))
    jobs = []
    for seed in seeds:
        spec = {"config": config | {"seed": seed}}
        jobs.append(Job(f"{label}-{seed}", "drest_torch.jobs.training_job:train", spec))
    return jobs


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Execute a run that `training_jobs` describes.

    numbers: the ``splits`` of the run's summary, ``env_steps``, ``mini_episodes`` and ``wall_seconds``; for exact
    gradients also their effort (`drest_torch.tracking.effort.NUMBERS`).

    arrays:

    - evaluations during training, at ``steps`` [T]: ``eval/<split>/<metric>`` [T], with the names of `metrics.jsonl`.
      Test levels are evaluated only at the end.
    - each level at the end: ``<split>/usefulness``, ``<split>/neutrality`` and ``<split>/p_longest``, the probability
      of the longest length [n].
    - a split with one level: ``<split>/lengths``, ``<split>/p_length`` and ``<split>/share_of_best`` [K], and, unless
      the policy is recurrent, the action probabilities ``<split>/policy`` [N, 4] in the reachable states.
    - an environment that is not a gridworld: ``neutrality_normalised`` and ``neutrality_own_normalised`` [n], ÷ log2 k,
      ``lengths`` [K], and ``p_length``, ``return_given_length`` and ``best_return`` [n, K], the m(l) of the run.
    """
    _, result = trained(spec, folder)
    return result


def trained(spec: dict[str, Any], folder: Path, before: Callable[[Run], None] = lambda run: None) -> tuple[Run, Result]:
    """Execute the run and return it with its result, for a study that needs more measurements.

    ``before`` may change the run before training; it has to make the same change when the run resumes.
    """
    values = OmegaConf.create(spec["config"] | {"run_dir": str(folder)})
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(values).encode())
    trust_modules_of(values)
    run = resume(folder)  # a run without a checkpoint starts
    task = run.task
    assert isinstance(task, AgentTask)
    before(run)
    summary = run.train()
    if summary is None:
        raise KeyboardInterrupt  # the run was asked to stop, and has saved its state
    names = ["splits", "env_steps", "mini_episodes", "wall_seconds"]
    if is_exact(summary):
        names += NUMBERS
    numbers = {name: summary[name] for name in names}
    arrays = _curves(folder / "metrics.jsonl")
    for split, split_summary in summary["splits"].items():
        levels = json.loads((folder / split_summary["file"]).read_text(encoding="utf-8"))
        measures = {
            "usefulness": np.array([level["usefulness"] for level in levels]),
            "neutrality": np.array([level["neutrality"] for level in levels]),
            "p_longest": np.array([_p_longest(level) for level in levels]),
            **task.arrays(split, levels, run.algorithm.evaluated_policy),
        }
        arrays |= {f"{split}/{name}": values for name, values in measures.items()}
    return run, Result(numbers, arrays)


def _p_longest(level: dict[str, Any]) -> float:
    """Return the probability of the longest length of a level."""
    *_, longest = level["length_probabilities"].values()
    return float(longest)


def _curves(metrics: Path) -> dict[str, np.ndarray]:
    """Return the evaluations over training."""
    rows = []
    for row in read_metrics(metrics):
        if any(name.startswith("eval/") for name in row):
            rows.append(row)
    curves = {"steps": np.array([row["step"] for row in rows])}
    for name in rows[0]:
        if name.startswith("eval/"):
            curves[name] = np.array([row[name] for row in rows])
    return curves
