"""Configurations: groups of runs that differ only in their seed, with names, mean scores and learning curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drest_torch.comparison.records import MOST, Curve, RunRecord

if TYPE_CHECKING:
    from drest_torch.statistics.intervals import Interval

NOT_COMPARED = ("run_dir", "resume", "progress")
"""Keys of a configuration that do not affect learning."""
_MAIN = ("algo.name", "reward.name", "levels.name", "levels.path", "policy.network")
"""Settings that every run's label shows; others are added where runs differ in them."""


@dataclass(frozen=True)
class Configuration:
    """A group of runs that differ only in their seed."""

    numbers: Sequence[int]
    """The numbers of its runs, counted from 1."""
    runs: Sequence[RunRecord]

    def __str__(self) -> str:
        return " ".join(map(str, self.numbers))

    def scores(self, split: str, measure: str) -> list[float]:
        """Return the scores of those runs that have one."""
        scores = [run.scores.get((split, measure), math.nan) for run in self.runs]
        return [score for score in scores if abs(score) < MOST]

    def interval(self, split: str, measure: str) -> Interval | None:
        """Return the mean over seeds with its 95 % interval, cut off at possible values; None for a single seed."""
        from drest_torch.statistics.intervals import t_interval  # with numpy, which takes time

        scores = self.scores(split, measure)
        if len(scores) < 2:
            return None
        most = 1.0 if measure == "usefulness" else min(run.most(split, measure) for run in self.runs)
        return t_interval(scores).within(min(0.0, *scores), max(most, *scores))


def configurations(runs: Sequence[RunRecord]) -> list[Configuration]:
    """Group runs by their configuration without the seed, in the order of their first runs."""
    alike: dict[frozenset[tuple[str, str]], list[int]] = {}
    for number, run in enumerate(runs, start=1):
        values = {key: str(value) for key, value in run.config.items() if key not in (*NOT_COMPARED, "seed")}
        alike.setdefault(frozenset(values.items()), []).append(number)
    return [Configuration(numbers, [runs[number - 1] for number in numbers]) for numbers in alike.values()]


def splits_of(runs: Sequence[RunRecord]) -> list[str]:
    """Return the splits on which any run was evaluated."""
    return list(dict.fromkeys(split for run in runs for split, _ in run.scores))


def curves_over_training(compared: Sequence[Configuration]) -> tuple[str, list[dict[tuple[str, str], list[Curve]]]]:
    """Return the common axis, and the curves of each configuration by split and measure, with a curve for each seed.

    The axis is environment steps, or updates for exact gradients. With runs of both kinds it is the share of each run's
    training.
    """
    runs = [run for configuration in compared for run in configuration.runs]
    kinds = {run.training is None for run in runs}
    if len(kinds) > 1:
        axis = "share of training, %"
    elif False in kinds:
        axis = "updates"
    else:
        axis = "environment steps"

    def place(run: RunRecord, step: float) -> float:
        if len(kinds) > 1:
            return 100 * step / run.config["env_steps"]
        if run.training is None:
            return step
        return step // run.steps_per_update

    all_curves = []
    for configuration in compared:
        curves: dict[tuple[str, str], list[Curve]] = {}
        for run in configuration.runs:
            for key, (steps, values) in run.curves.items():
                curves.setdefault(key, []).append(([place(run, step) for step in steps], values))
        all_curves.append(curves)
    return axis, all_curves


# ------------------------------------------------------------------------------------------ differences


def differences(runs: Sequence[RunRecord]) -> dict[str, dict[str, list[int]]]:
    """Return the configuration values in which runs differ, as the indices of runs by key and value.

    A key that only some runs have, such as one of their algorithm, counts if these runs differ in it.
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


def labels(compared: Sequence[Configuration]) -> list[str]:
    """Return a label for each configuration: the numbers of its runs, and the settings in which it differs."""
    first = [configuration.runs[0] for configuration in compared]
    differing = differences(first)
    keys = [key for key in _MAIN if key in differing]
    keys += _further_keys(first, differing)[:3]
    names = []
    for configuration, run in zip(compared, first, strict=True):
        words = [_setting(run, key) for key in keys]
        seeds = len(configuration.runs)
        if seeds > 1:
            words.append(f"{seeds} seeds")
        elif "seed" in differing:
            words.append(f"seed {run.value('seed')}")
        names.append(f"{configuration}  {', '.join(words) or run.folder.name}")
    return names


def _further_keys(runs: Sequence[RunRecord], differing: Iterable[str]) -> list[str]:
    """Return the other keys in which runs with the same main settings differ."""
    main = [tuple(run.value(key) for key in _MAIN) for run in runs]
    further = []
    for key in differing:
        if key == "seed" or key in _MAIN:
            continue
        values = [run.value(key) for run in runs]
        if len(set(zip(main, values, strict=True))) > len(set(main)):
            further.append(key)
    return further


def _setting(run: RunRecord, key: str) -> str:
    """Return a setting in words: its value, after the last part of its key."""
    last = key.rpartition(".")[2]
    if last == "name":
        return run.value(key)
    return f"{last} {run.value(key)}"
