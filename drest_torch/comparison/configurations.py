"""Configurations: groups of runs that differ only in their seed, with labels, scores and learning curves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from drest_torch.comparison.records import MOST, SPLITS, Curve, RunRecord

NOT_COMPARED = ("run_dir", "resume", "overwrite", "progress", "threads")
"""Keys of a configuration that do not affect learning."""
_PLACES = ("env.name", "env.title", "levels.name", "levels.path")
"""Keys that a label replaces by the levels or the environment of the run."""
_MAIN = ("algo.name", "reward.name", "policy.network")
"""Settings of a label where runs differ in them; others are added if necessary."""
_MOST_FURTHER = 3
"""The largest number of further settings in a label."""


@dataclass(frozen=True)
class Configuration:
    """A group of runs that differ only in their seed, and in the keys of ``across``."""

    numbers: Sequence[int]
    """The numbers of its runs, counted from 1."""
    runs: Sequence[RunRecord]
    across: str | None = field(default=None, kw_only=True)
    """A key or group of keys in which the runs may also differ; each of its values is a stratum."""

    def __str__(self) -> str:
        return " ".join(map(str, self.numbers))

    @property
    def strata(self) -> list[list[RunRecord]]:
        """The runs by their values of the keys of ``across``."""
        strata: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
        for run in self.runs:
            values = {key: str(value) for key, value in run.config.items() if in_group(key, self.across)}
            strata.setdefault(tuple(values.items()), []).append(run)
        return list(strata.values())

    @property
    def seeds(self) -> int:
        """The number of different seeds."""
        return len({run.value("seed") for run in self.runs})

    def scores(self, split: str, measure: str) -> list[float]:
        """Return the scores of those runs that have one."""
        return [score_of(run, split, measure) for run in self.runs if has_score(run, split, measure)]

    def scored_strata(self, split: str, measure: str) -> list[list[RunRecord]]:
        """Return the runs with a score by stratum, without empty strata."""
        strata = [[run for run in stratum if has_score(run, split, measure)] for stratum in self.strata]
        return [stratum for stratum in strata if stratum]


def score_of(run: RunRecord, split: str, measure: str) -> float:
    """Return a score of a run, NaN if it has none."""
    return run.scores.get((split, measure), math.nan)


def has_score(run: RunRecord, split: str, measure: str) -> bool:
    """Return whether a run has a finite score of possible size."""
    return abs(score_of(run, split, measure)) < MOST


def in_group(key: str, group: str | None) -> bool:
    """Return whether a dotted key is a key or lies in a group of keys."""
    return group is not None and (key == group or key.startswith(f"{group}."))


def configurations(runs: Sequence[RunRecord], across: str | None = None) -> list[Configuration]:
    """Group runs by their configuration without the seed and the keys of ``across``, in the order of first runs."""
    alike: dict[frozenset[tuple[str, str]], list[int]] = {}
    for number, run in enumerate(runs, start=1):
        values = {
            key: str(value)
            for key, value in run.config.items()
            if key not in (*NOT_COMPARED, "seed") and not in_group(key, across)
        }
        alike.setdefault(frozenset(values.items()), []).append(number)
    return [
        Configuration(numbers, [runs[number - 1] for number in numbers], across=across) for numbers in alike.values()
    ]


def splits_of(runs: Sequence[RunRecord]) -> list[str]:
    """Return the splits on which any run was evaluated: those of training, of test levels and the paper first."""
    splits = dict.fromkeys(split for run in runs for split, _ in run.scores)
    return [split for split in SPLITS if split in splits] + [split for split in splits if split not in SPLITS]


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


def title_of_places(runs: Iterable[RunRecord]) -> str:
    """Return the title of the column with the levels or environments of runs."""
    kinds = {run.is_gridworld for run in runs}
    if kinds == {False}:
        return "environment"
    if kinds == {True}:
        return "levels"
    return "task"


def labels(compared: Sequence[Configuration]) -> list[str]:
    """Return a label for each configuration: the settings in which it differs from the others, and its seeds.

    Labels that would be equal have the numbers of their runs.
    """
    first = [configuration.runs[0] for configuration in compared]
    across = compared[0].across if compared else None
    differing = [key for key in differences(first) if not in_group(key, across)]
    has_places = len({run.place for run in first}) > 1 and not any(in_group(key, across) for key in _PLACES)
    keys = [key for key in _MAIN if key in differing]
    main = [(*(run.value(key) for key in _MAIN), run.place) for run in first]
    keys += _further_keys(first, main, differing)[:_MOST_FURTHER]
    names = []
    for configuration, run in zip(compared, first, strict=True):
        words = [_setting(run, key) for key in keys]
        if has_places:
            words.insert(1 if "algo.name" in keys else 0, run.place)
        names.append(_with_seeds(words, configuration, is_told="seed" in differing))
    counts = Counter(names)
    for index, configuration in enumerate(compared):
        if counts[names[index]] > 1:
            noun = "run" if len(configuration.runs) == 1 else "runs"
            names[index] += f", {noun} {configuration}"
    return names


def _with_seeds(words: list[str], configuration: Configuration, *, is_told: bool) -> str:
    """Return a label from its settings and the number of seeds, or the seed of a single run."""
    run, count = configuration.runs[0], len(configuration.runs)
    if count == 1:
        seed = [f"seed {run.value('seed')}"] * is_told
        return ", ".join([*words, *seed]) or run.folder.name
    noun = "seeds" if configuration.seeds * len(configuration.strata) == count else "runs"
    number = configuration.seeds if noun == "seeds" else count
    return ", ".join([*(words or [run.value("algo.name")]), f"{number} {noun}"])


def _further_keys(runs: Sequence[RunRecord], main: Sequence[tuple[str, ...]], differing: Iterable[str]) -> list[str]:
    """Return the other keys in which runs with the same main settings differ."""
    further = []
    for key in differing:
        if key in ("seed", *_MAIN, *_PLACES):
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
