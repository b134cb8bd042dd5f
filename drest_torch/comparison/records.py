"""Read runs from their folders, to be compared."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from drest_torch.config.reading import flattened, read_config
from drest_torch.errors import CheckpointError, UserError
from drest_torch.files import read_metrics, read_whole
from drest_torch.tracking.effort import effort, is_exact, rows

RUNS_OF_SWEEP = "runs.txt"
"""A file in the folder of a sweep: the folder of each run, as seen from there, one a line."""
MEASURES = ("usefulness", "neutrality")
MOST = 1e6
"""No usefulness or neutrality is as large."""

Curve = tuple[list[float], list[float]]
"""Steps and values."""


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder tells it: configuration, metrics and, if it is finished, its summary."""

    folder: Path
    config: Mapping[str, Any]
    """By dotted key."""
    summary: Mapping[str, Any] | None
    """Of a run that has been trained and evaluated to its end."""
    rows: Sequence[Mapping[str, float]]

    @property
    def steps(self) -> int:
        """The environment steps taken so far; of exact gradients, which take none, counted steps."""
        if self.summary is not None:
            return int(self.summary["env_steps"])
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def counted_steps(self) -> int:
        """The steps that are counted for an update of exact gradients."""
        return int(self.config.get("algo.counted_steps", 4096))

    @property
    def training(self) -> str | None:
        """What exact gradients took so far, in words; None for a run that plays, which took its steps."""
        if self.config["algo.name"] != "exact":
            return None
        if self.summary is not None and is_exact(self.summary):
            return f"{effort(self.summary)}; {rows(self.summary)}"
        return f"{self.steps // self.counted_steps:,} updates"

    @property
    def seconds(self) -> float | None:
        """The time that training took so far, if it has been logged."""
        if self.summary is not None:
            return float(self.summary["wall_seconds"])
        times = (row.get("time/wall_seconds", math.nan) for row in reversed(self.rows))
        return next((seconds for seconds in times if math.isfinite(seconds)), None)

    def value(self, key: str) -> str:
        """Return a value of the configuration as text."""
        return str(self.config.get(key, "?"))

    @cached_property
    def curves(self) -> dict[tuple[str, str], Curve]:
        """Usefulness and neutrality over training, by split and measure."""
        points: dict[tuple[str, str], dict[float, float]] = {}
        for row in self.rows:
            for name, value in row.items():
                group, _, rest = name.partition("/")
                split, _, measure = rest.rpartition("/")
                if group == "eval" and measure in MEASURES and split != "selection" and abs(value) < MOST:
                    points.setdefault((split, measure), {})[float(row["step"])] = value
        return {key: (sorted(found), [found[step] for step in sorted(found)]) for key, found in points.items()}

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

    def most(self, split: str, measure: str) -> float:
        """Return the highest score that is possible on the levels of a split, as far as it is known."""
        numbers = {} if self.summary is None else self.summary["splits"].get(split, {})
        return float(numbers.get("optimum", {}).get(measure, math.inf))


def find_runs(folders: Iterable[Path]) -> tuple[list[RunRecord], list[str]]:
    """Return the runs in these folders, each once, and a sentence for each folder without one that can be read.

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
                try:
                    found[run.resolve()] = read_run(run)
                except UserError as error:
                    refused.append(str(error))
    return list(found.values()), refused


def _run_folders(folder: Path, *, depth: int = 2) -> list[Path]:
    if _is_run(folder):
        return [folder]
    listed = folder / RUNS_OF_SWEEP
    if listed.is_file():
        runs = [folder / line for line in read_whole(listed).decode(errors="replace").splitlines()]
        return [Path(os.path.normpath(run)) for run in runs if _is_run(run)]
    if not folder.is_dir() or depth == 0:
        return []
    return [run for inner in sorted(folder.iterdir()) for run in _run_folders(inner, depth=depth - 1)]


def _is_run(folder: Path) -> bool:
    return (folder / "config.yaml").is_file()


def read_run(folder: Path) -> RunRecord:
    """Return the run of a folder."""
    return RunRecord(
        folder,
        _read(folder / "config.yaml", _config, "configuration"),
        _read(folder / "summary.json", _summary, "summary") if os.path.lexists(folder / "summary.json") else None,
        _read(folder / "metrics.jsonl", read_metrics, "metrics"),
    )


def _read(file: Path, read: Callable[[Path], Any], what: str) -> Any:
    """Return what is read from a file of a run, or say that the file is damaged."""
    try:
        return read(file)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    except Exception:  # of whatever kind: anything may stand in the file
        raise CheckpointError(f"{file}: not the {what} of a run") from None


def _config(file: Path) -> dict[str, Any]:
    """Return a configuration by dotted key, with those values checked that a comparison computes with."""
    config: Any = OmegaConf.to_container(read_config(file))
    flat = flattened(config)
    flat["algo.name"], flat["seed"]
    for key in ("env_steps", *({"algo.counted_steps"} & flat.keys())):
        flat[key] = int(flat[key])
        if flat[key] < 1:
            raise ValueError(key)
    return flat


def _summary(file: Path) -> dict[str, Any]:
    """Return a summary, with those values checked that a comparison computes with or prints."""
    found = json.loads(read_whole(file))
    splits: dict[str, dict[str, Any]] = {}
    for split, numbers in found["splits"].items():
        optimum = numbers.get("optimum", {})
        splits[split] = {measure: float(numbers[measure]) for measure in MEASURES}
        splits[split]["optimum"] = {measure: float(optimum[measure]) for measure in MEASURES if measure in optimum}
    took = {"env_steps": int(found["env_steps"]), "wall_seconds": float(found["wall_seconds"])}
    summary: dict[str, Any] = {**found, **took, "splits": splits}
    if is_exact(summary):
        effort(summary), rows(summary)
    return summary
