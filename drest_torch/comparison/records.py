"""Records of runs, read from their folders for a comparison."""

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
from drest_torch.evaluation.tidy import level_rows
from drest_torch.files import read_metrics, read_whole
from drest_torch.outputs import refuse_links
from drest_torch.tracking.effort import WITHOUT_STEPS, effort, is_exact, rows

RUNS_OF_SWEEP = "runs.txt"
"""A file in the folder of a sweep, with the relative path of each run's folder, one a line."""
MEASURES = ("usefulness", "neutrality")
FURTHER_MEASURES = ("neutrality_normalised", "neutrality_own", "usefulness_committed")
"""Measures that tables of values have besides `MEASURES`, where a run has them."""
IN_BITS = ("neutrality", "neutrality_own")
MOST = 1e6
"""An upper bound of usefulness and neutrality."""
GRIDWORLD = "gridworld"
SPLITS = {"train": "training levels", "test": "test levels", "paper": "the paper's worlds"}
"""Titles of splits in gridworlds."""

Curve = tuple[list[float], list[float]]
"""A curve: steps and values."""


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run's folder: configuration, metrics and, once it is finished, summary."""

    folder: Path
    config: Mapping[str, Any]
    """Values by dotted key."""
    summary: Mapping[str, Any] | None
    """The summary of a finished run."""
    rows: Sequence[Mapping[str, float]]

    @property
    def steps(self) -> int:
        """The environment steps so far; for exact gradients, which take none, updates × `steps_per_update`."""
        if self.summary is not None:
            return int(self.summary["env_steps"])
        if not self.rows:
            return 0
        return int(self.rows[-1]["step"])

    @property
    def steps_per_update(self) -> int:
        """The steps that an update with exact gradients counts as."""
        return int(self.config.get("algo.counted_steps", 4096))

    @property
    def training(self) -> str | None:
        """The effort of exact gradients so far, in words; None for a run that samples, whose effort is its number of
        steps."""
        if self.summary is not None and is_exact(self.summary):
            return f"{effort(self.summary)}; {rows(self.summary)}"
        if self.config["algo.name"] not in WITHOUT_STEPS:
            return None
        return f"{self.steps // self.steps_per_update:,} updates"

    @property
    def seconds(self) -> float | None:
        """The logged duration of training so far, or None."""
        if self.summary is not None:
            return float(self.summary["wall_seconds"])
        times = (row.get("time/wall_seconds", math.nan) for row in reversed(self.rows))
        return next((seconds for seconds in times if math.isfinite(seconds)), None)

    def value(self, key: str) -> str:
        """Return a value of the configuration as text."""
        return str(self.config.get(key, "?"))

    @property
    def is_gridworld(self) -> bool:
        """True for a run in gridworlds, which have levels."""
        return str(self.config.get("env.name", GRIDWORLD)) == GRIDWORLD

    @property
    def place(self) -> str:
        """The levels of the run, or the environment outside gridworlds."""
        if not self.is_gridworld:
            return self.value("env.title")
        if self.config.get("levels.path"):
            return self.value("levels.path")
        return self.value("levels.name")

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
        curves = {}
        for key, value_of_step in points.items():
            steps = sorted(value_of_step)
            curves[key] = (steps, [value_of_step[step] for step in steps])
        return curves

    @cached_property
    def scores(self) -> dict[tuple[str, str], float]:
        """The final usefulness and neutrality by split and measure, or the latest of an unfinished run."""
        if self.summary is None:
            return {key: values[-1] for key, (_, values) in self.curves.items()}
        scores = {}
        for split, numbers in self.summary["splits"].items():
            for measure in (*MEASURES, *FURTHER_MEASURES):
                if measure in numbers:
                    scores[split, measure] = numbers[measure]
        return scores

    def most(self, split: str, measure: str) -> float:
        """Return the largest possible score on the levels of a split; infinite if it is not recorded."""
        if measure not in IN_BITS:
            return 1.0
        if self.summary is not None:
            optimum = self.summary["splits"].get(split, {}).get("optimum", {})
            return float(optimum.get("neutrality", math.inf))
        # The neutrality of an unfinished run, divided by the normalised one, is log2 k.
        for row in reversed(self.rows):
            share = row.get(f"eval/{split}/neutrality_normalised", 0.0)
            if share > 0:
                return row.get(f"eval/{split}/neutrality", math.inf) / share
        return math.inf

    def levels(self, split: str) -> list[dict[str, Any]]:
        """Return the records of the levels of a split; an empty list without a readable file of them."""
        if self.summary is None:
            return []
        if split not in self._levels:
            self._levels[split] = _level_records(self.folder / f"levels_{Path(split).name}.json")
        return self._levels[split]

    @property
    def has_levels(self) -> bool:
        """True if any split has a readable file of its levels."""
        return any(self.levels(split) for split, _ in self.scores)

    @cached_property
    def _levels(self) -> dict[str, list[dict[str, Any]]]:
        return {}


def title_of_split(split: str, runs: Sequence[RunRecord]) -> str:
    """Return the title of a split on which runs were evaluated."""
    kinds = {run.is_gridworld for run in runs}
    if split != "test" or kinds == {True}:
        return SPLITS.get(split, split)
    if len(kinds) > 1:
        return split
    places = {run.place for run in runs}
    if len(places) > 1:
        return "sampled mini-episodes"
    return places.pop()


def list_run(sweep: Path, run: Path) -> None:
    """Add a run to the list of a sweep, unless it is in it."""
    sweep.mkdir(parents=True, exist_ok=True)
    refuse_links(sweep, [RUNS_OF_SWEEP, "combinations.jsonl"])
    listed, line = sweep / RUNS_OF_SWEEP, os.path.relpath(run, sweep)
    lines: list[str] = []
    if listed.is_file():
        lines = read_whole(listed).decode(errors="replace").splitlines()
    if line not in lines:
        with open(listed, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def find_runs(folders: Iterable[Path]) -> tuple[list[RunRecord], list[str]]:
    """Return the distinct runs in these folders, and a sentence for each folder without a readable run.

    A folder belongs to a run or a sweep, or contains such folders, as ``runs`` does.
    """
    records: dict[Path, RunRecord] = {}
    refused = []
    for folder in folders:
        runs = _run_folders(folder)
        if not runs:
            reason = "no run in it (no config.yaml)" if folder.exists() else "no such folder"
            refused.append(f"{folder}: {reason}; expected the folder of a run, of a sweep, or of several runs")
        for run in runs:
            if run.resolve() not in records:
                try:
                    records[run.resolve()] = read_run(run)
                except UserError as error:
                    refused.append(str(error))
    return list(records.values()), refused


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
    """Return the record of a run."""
    config = _read(folder / "config.yaml", _config, "configuration")
    summary = None
    if os.path.lexists(folder / "summary.json"):
        summary = _read(folder / "summary.json", _summary, "summary")
    metrics = _read(folder / "metrics.jsonl", read_metrics, "metrics")
    return RunRecord(folder, config, summary, metrics)


def _read(file: Path, read: Callable[[Path], Any], content: str) -> Any:
    """Return the content of a run's file; raise if the file is damaged."""
    try:
        return read(file)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    except Exception:  # of any kind, as the file may hold anything
        raise CheckpointError(f"{file}: not the {content} of a run") from None


def _config(file: Path) -> dict[str, Any]:
    """Return a configuration by dotted key, after a check of the values that a comparison uses."""
    config: Any = OmegaConf.to_container(read_config(file))
    flat = flattened(config)
    flat["algo.name"], flat["seed"]
    is_gridworld = flat.get("env.name", GRIDWORLD) == GRIDWORLD
    if is_gridworld:
        flat.pop("env.title", None)  # the name of the levels
    else:  # the levels of the default configuration are not played
        flat = {key: value for key, value in flat.items() if key.partition(".")[0] not in ("levels", "test")}
    for key in ("env_steps", *({"algo.counted_steps"} & flat.keys())):
        flat[key] = int(flat[key])
        if flat[key] < 1:
            raise ValueError(key)
    return flat


def _summary(file: Path) -> dict[str, Any]:
    """Return a summary, after a check of the values that a comparison uses."""
    values = json.loads(read_whole(file))
    splits: dict[str, dict[str, Any]] = {}
    for split, numbers in values["splits"].items():
        optimum = numbers.get("optimum", {})
        splits[split] = {measure: float(numbers[measure]) for measure in MEASURES}
        further = [measure for measure in FURTHER_MEASURES if measure in numbers]
        splits[split] |= {measure: float(numbers[measure]) for measure in further}
        splits[split]["optimum"] = {measure: float(optimum[measure]) for measure in MEASURES if measure in optimum}
    duration = {"env_steps": int(values["env_steps"]), "wall_seconds": float(values["wall_seconds"])}
    summary: dict[str, Any] = {**values, **duration, "splits": splits}
    if is_exact(summary):
        effort(summary), rows(summary)
    return summary


def _level_records(file: Path) -> list[dict[str, Any]]:
    """Return the records of levels in a file of a run; an empty list if they cannot be read."""
    try:
        records = json.loads(read_whole(file))
        for record in records:
            record["name"] = str(record["name"])
        list(level_rows(records))  # raises where a value is missing or of another kind
    except Exception:  # of any kind, as the file may hold anything; older runs have no such file
        return []
    return list(records)
