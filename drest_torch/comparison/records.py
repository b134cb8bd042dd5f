"""Read runs from their folders, to be compared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from drest_torch.config.reading import read_config
from drest_torch.effort import effort, is_exact, rows
from drest_torch.errors import CheckpointError, UserError
from drest_torch.files import read_metrics, read_whole

RUNS_OF_SWEEP = "runs.txt"
"""A file in the folder of a sweep: the folder of each run, as seen from there, one a line."""
MEASURES = ("usefulness", "neutrality")
NOT_COMPARED = ("run_dir", "resume", "progress")
"""Values of a configuration that say nothing about what is learned."""

Curve = tuple[list[float], list[float]]
"""Steps and values."""


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder tells it: configuration, metrics and, if it is finished, its summary."""

    folder: Path
    config: Mapping[str, Any]
    """By dotted key."""
    summary: Mapping[str, Any] | None
    rows: Sequence[Mapping[str, float]]

    @property
    def finished(self) -> bool:
        """Whether the run has been trained and evaluated to its end."""
        return self.summary is not None

    @property
    def steps(self) -> int:
        """The environment steps taken so far; of exact gradients, which take none, counted steps."""
        if self.summary is not None:
            return int(self.summary["env_steps"])
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def training(self) -> str | None:
        """What exact gradients took so far, in words; None for a run that plays, which took its steps."""
        if self.config["algo.name"] != "exact":
            return None
        if self.summary is not None and is_exact(self.summary):
            return f"{effort(self.summary)}; {rows(self.summary)}"
        return f"{self.steps // int(self.config.get('algo.counted_steps', 4096)):,} updates"

    @property
    def seconds(self) -> float | None:
        """The time that training took so far, if it has been logged."""
        if self.summary is not None:
            return float(self.summary["wall_seconds"])
        return next((row["time/wall_seconds"] for row in reversed(self.rows) if "time/wall_seconds" in row), None)

    @property
    def seeds(self) -> str:
        """The seed."""
        return str(self.config["seed"])

    def value(self, key: str) -> str:
        """Return a value of the configuration as text."""
        return str(self.config.get(key, "?"))

    @cached_property
    def curves(self) -> dict[tuple[str, str], Curve]:
        """Usefulness and neutrality over training, by split and measure."""
        curves: dict[tuple[str, str], Curve] = {}
        for row in self.rows:
            for name, value in row.items():
                group, _, rest = name.partition("/")
                split, _, measure = rest.rpartition("/")
                if group == "eval" and measure in MEASURES and split != "selection":
                    steps, values = curves.setdefault((split, measure), ([], []))
                    steps.append(int(row["step"]))
                    values.append(value)
        return curves

    @cached_property
    def scores(self) -> dict[tuple[str, str], float]:
        """The final usefulness and neutrality by split and measure; of an unfinished run the latest."""
        if self.summary is None:
            return {key: values[-1] for key, (_, values) in self.curves.items()}
        return {
            (split, measure): numbers[measure]
            for split, numbers in self.summary["splits"].items()
            for measure in MEASURES
        }


def curves_over_training(runs: Sequence[RunRecord]) -> tuple[str, list[dict[tuple[str, str], Curve]]]:
    """Return what the curves of these runs can be plotted against, and the curves.

    Environment steps are compared with environment steps, updates of exact gradients with updates. Where some runs play
    and others do not, the axis is the share of each run's own training.
    """
    exact = {run.training is not None for run in runs}

    def place(run: RunRecord, step: float) -> float:
        if len(exact) > 1:
            return 100 * step / int(run.config["env_steps"])
        return step // int(run.config.get("algo.counted_steps", 4096)) if run.training is not None else step

    curves = [
        {key: ([place(run, step) for step in steps], values) for key, (steps, values) in run.curves.items()}
        for run in runs
    ]
    names = {False: "environment steps", True: "updates"}
    return "share of training, %" if len(exact) > 1 else names[True in exact], curves


def find_runs(folders: Iterable[Path]) -> tuple[list[RunRecord], list[str]]:
    """Return the runs in these folders, each once, and a sentence for each folder without a run.

    A folder is that of a run, that of a sweep, or one that contains such folders, such as ``runs``.
    """
    found: dict[Path, RunRecord] = {}
    refused = []
    for folder in folders:
        runs = _run_folders(folder)
        if not runs:
            reason = "no run in it (no config.yaml)" if folder.exists() else "no such folder"
            refused.append(f"{folder}: {reason}; expected the folder of a run, of a sweep, or of several runs")
        for run in runs:
            if run.resolve() not in found:
                found[run.resolve()] = read_run(run)
    return list(found.values()), refused


def _run_folders(folder: Path, *, depth: int = 2) -> list[Path]:
    if _is_run(folder):
        return [folder]
    listed = folder / RUNS_OF_SWEEP
    if listed.is_file():
        runs = [folder / line for line in listed.read_text(encoding="utf-8").splitlines()]
        return [Path(os.path.normpath(run)) for run in runs if _is_run(run)]
    if not folder.is_dir() or depth == 0:
        return []
    return [run for inner in sorted(folder.iterdir()) for run in _run_folders(inner, depth=depth - 1)]


def _is_run(folder: Path) -> bool:
    return (folder / "config.yaml").is_file()


def read_run(folder: Path) -> RunRecord:
    """Return the run of a folder."""
    config_file, summary_file = folder / "config.yaml", folder / "summary.json"
    try:
        config: Any = OmegaConf.to_container(read_config(config_file))
        flat = _flat(config)
        flat["algo.name"], flat["seed"], flat["env_steps"]
    except (YAMLError, OmegaConfBaseException, UserError, ValueError, LookupError, AttributeError, TypeError):
        raise CheckpointError(f"{config_file}: not the configuration of a run; leave this folder out") from None
    summary = None
    if summary_file.is_file():
        try:
            summary = json.loads(read_whole(summary_file))
            int(summary["env_steps"]), float(summary["wall_seconds"])
            for numbers in summary["splits"].values():
                [float(numbers[measure]) for measure in MEASURES]
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            raise CheckpointError(f"{summary_file}: not the summary of a run; leave this folder out") from None
    return RunRecord(folder, flat, summary, read_metrics(folder / "metrics.jsonl"))


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, dict) and value else {name: value}
    return flat


def differences(runs: Sequence[RunRecord]) -> dict[str, dict[str, list[int]]]:
    """Return the configuration values in which runs differ: by key and value, the places of the runs that have it.

    A key that only some runs have, such as one of their algorithm, counts where these differ among themselves.
    """
    keys = dict.fromkeys(key for run in runs for key in run.config if key not in NOT_COMPARED)
    differing = {}
    for key in keys:
        places: dict[str, list[int]] = {}
        for place, run in enumerate(runs):
            if key in run.config:
                places.setdefault(str(run.config[key]), []).append(place)
        if len(places) > 1:
            differing[key] = places
    return differing


_MAIN = ("algo.name", "reward.name", "levels.name", "levels.path", "policy.network", "seed")
"""The values that name a run; others are told if runs with the same main values differ in them."""


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """Return a short name for each run: its number, and what tells it from the others."""
    differing = differences(runs)
    main = [key for key in _MAIN if key in differing]
    kinds = [tuple(run.value(key) for key in _MAIN if key != "seed") for run in runs]

    def varies(key: str) -> bool:
        seen = {(kind, run.value(key)) for kind, run in zip(kinds, runs, strict=True)}
        return len(seen) > len(set(kinds))

    further = [key for key in differing if key not in _MAIN and varies(key)][:3]
    names = []
    for number, run in enumerate(runs, start=1):
        words = [run.value(key) if key.endswith(".name") else f"{_last(key)} {run.value(key)}" for key in main]
        words += [f"{_last(key)} {run.value(key)}" for key in further]
        names.append(f"{number}  {', '.join(words) or run.folder.name}")
    return names


def _last(key: str) -> str:
    return key.rpartition(".")[2]
