"""Runs that differ in nothing but their seed, taken together: their names, mean scores and learning curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drest_torch.comparison.records import MOST, Curve, RunRecord

if TYPE_CHECKING:
    from drest_torch.statistics.intervals import Interval

NOT_COMPARED = ("run_dir", "resume", "progress")
"""Values of a configuration that say nothing about what is learned."""
_MAIN = ("algo.name", "reward.name", "levels.name", "levels.path", "policy.network")
"""The values that name a run; others are told if runs with the same main values differ in them."""


@dataclass(frozen=True)
class Configuration:
    """Runs that differ in nothing but their seed."""

    numbers: Sequence[int]
    """Of its runs, as they are counted from 1."""
    runs: Sequence[RunRecord]

    def __str__(self) -> str:
        return " ".join(map(str, self.numbers))

    def scores(self, split: str, measure: str) -> list[float]:
        """Return the scores of those runs that have one."""
        scores = [run.scores.get((split, measure), math.nan) for run in self.runs]
        return [score for score in scores if abs(score) < MOST]

    def interval(self, split: str, measure: str) -> Interval | None:
        """Return the mean over the seeds with its 95 % interval, within what is possible; None for fewer than two."""
        from drest_torch.statistics.intervals import t_interval  # with numpy, which takes time

        scores = self.scores(split, measure)
        if len(scores) < 2:
            return None
        most = 1.0 if measure == "usefulness" else min(run.most(split, measure) for run in self.runs)
        return t_interval(scores).within(min(0.0, *scores), max(most, *scores))


def configurations(runs: Sequence[RunRecord]) -> list[Configuration]:
    """Return the runs by their configuration without the seed, in the order of the first of each."""
    alike: dict[frozenset[tuple[str, str]], list[int]] = {}
    for number, run in enumerate(runs, start=1):
        values = {key: str(value) for key, value in run.config.items() if key not in (*NOT_COMPARED, "seed")}
        alike.setdefault(frozenset(values.items()), []).append(number)
    return [Configuration(numbers, [runs[number - 1] for number in numbers]) for numbers in alike.values()]


def splits_of(runs: Sequence[RunRecord]) -> list[str]:
    """Return the splits on which any of the runs was evaluated."""
    return list(dict.fromkeys(split for run in runs for split, _ in run.scores))


def curves_over_training(compared: Sequence[Configuration]) -> tuple[str, list[dict[tuple[str, str], list[Curve]]]]:
    """Return what curves can be plotted against, and those of each configuration, one a seed, by split and measure.

    Environment steps are compared with environment steps, updates of exact gradients with updates. Where some runs play
    and others do not, the axis is the share of each run's own training.
    """
    kinds = {run.training is None for configuration in compared for run in configuration.runs}
    axis = "share of training, %" if len(kinds) > 1 else "updates" if False in kinds else "environment steps"

    def place(run: RunRecord, step: float) -> float:
        if len(kinds) > 1:
            return 100 * step / run.config["env_steps"]
        return step if run.training is None else step // run.counted_steps

    found = []
    for configuration in compared:
        curves: dict[tuple[str, str], list[Curve]] = {}
        for run in configuration.runs:
            for key, (steps, values) in run.curves.items():
                curves.setdefault(key, []).append(([place(run, step) for step in steps], values))
        found.append(curves)
    return axis, found


# ---------------------------------------------------------------------------------- what they differ in


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


def labels(compared: Sequence[Configuration]) -> list[str]:
    """Return a short name for each configuration: the numbers of its runs, and what tells it from the others."""
    first = [configuration.runs[0] for configuration in compared]
    kinds = [tuple(run.value(key) for key in _MAIN) for run in first]
    differing = differences(first)
    main = [key for key in _MAIN if key in differing]
    others = {key: {*zip(kinds, (run.value(key) for run in first), strict=True)} for key in differing if key != "seed"}
    further = [key for key, found in others.items() if key not in _MAIN and len(found) > len(set(kinds))][:3]
    names = []
    for configuration, run in zip(compared, first, strict=True):
        last = {key: key.rpartition(".")[2] for key in (*main, *further)}
        words = [run.value(key) if end == "name" else f"{end} {run.value(key)}" for key, end in last.items()]
        if (seeds := len(configuration.runs)) > 1:
            words.append(f"{seeds} seeds")
        elif "seed" in differing:
            words.append(f"seed {run.value('seed')}")
        names.append(f"{configuration}  {', '.join(words) or run.folder.name}")
    return names
