"""Few levels: methods that make agents useful and neutral on unseen levels after training on a few."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import pandas as pd

from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.training_job import merge_arguments, training_jobs
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import RANGE, dot_figure, dots_of
from drest_torch.report.tables import MISSING, difference_text, mean_range, p_text, table_of
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.shared import differences_on_test_levels, of_part

AS_THEY_ARE = "as they are"
"""The method with which all others are compared: no further arguments."""
VARIED = "varied designs"
SPLITS = {"train": "training levels", "test": "unseen levels"}
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}


@dataclass
class Config(StudyConfig):
    seeds: int = limited(at_least=1, default=5)
    """Agents with each algorithm and method."""
    agents: dict[str, str] = value({})
    """Arguments of `drest train` by algorithm (`few_levels.yaml`)."""
    methods: dict[str, Any] = value({})
    """Further arguments by method (`few_levels.yaml`); null: the method is left out."""
    levels: int = limited(at_least=1, default=64)
    """Training levels."""
    split_seed: int = limited(at_least=0, default=58)
    """Seed of the generated levels. No setting was chosen on them."""
    test: int = limited(at_least=2, default=500)
    """Unseen levels."""
    overrides: list[str] = value([])
    """Arguments that override those of all runs."""


QUICK = {
    "seeds": 2,
    "methods": dict.fromkeys(
        ("RMSNorm", "averaged weights", "dropout", "dropout, averaged weights", "levels by regret", "varied designs"),
        None,
    ),
    "levels": 16,
    "test": 10,
    "overrides": ["env_steps=3000", "policy.width=8", "policy.depth=2", "evaluations=1", "levels.selection=5"],
}


class Key(NamedTuple):
    agent: str
    method: str
    seed: int


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs of each algorithm with each method, ordered by seed."""
    levels = [f"levels.train={cfg.levels}", f"levels.test={cfg.test}", f"levels.split_seed={cfg.split_seed}"]
    runs: dict[Key, Job] = {}
    methods = {name: further for name, further in cfg.methods.items() if further is not None}
    for agent, method in product(cfg.agents, methods):
        arguments = merge_arguments(cfg.agents[agent].split(), methods[method].split(), levels, cfg.overrides)
        by_seed = training_jobs(f"{agent}, {method}", range(cfg.seeds), arguments=arguments)
        runs |= {Key(agent, method, seed): job for seed, job in enumerate(by_seed)}
    return dict(sorted(runs.items(), key=lambda item: item[0].seed))


# ---------------------------------------------------------------------------------------------- rows


def rows(cfg: Config, done: Mapping[Key, Result]) -> pd.DataFrame:
    """Return two kinds of rows, by the column ``part``.

    - *end*: the means over the levels of a ``split``, for each agent.
    - *difference*: a method less none, on the same unseen levels and with the same algorithm, with an interval over
      seeds and levels, and its p value after Holm's correction.
    """
    ends = [
        {
            "part": "end",
            **key._asdict(),
            "split": split,
            **{measure: round(float(result.arrays[f"{split}/{measure}"].mean()), 5) for measure in MEASURES},
        }
        for key, result in done.items()
        for split in SPLITS
    ]
    return pd.DataFrame([*ends, *_differences(done)])


def _differences(done: Mapping[Key, Result]) -> list[dict[str, Any]]:
    """Return the differences of each method from none."""
    by_method: dict[tuple[str, str], dict[int, Result]] = {}
    for key, result in done.items():
        by_method.setdefault((key.agent, key.method), {})[key.seed] = result
    compared = {
        (agent, method): (by_seed, by_method.get((agent, AS_THEY_ARE), {}))
        for (agent, method), by_seed in by_method.items()
        if method != AS_THEY_ARE
    }
    return [
        {"part": "difference", "agent": agent, "method": method, **numbers}
        for (agent, method), numbers in differences_on_test_levels(compared, MEASURES)
    ]


def unseen(rows: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Return the ends of agents on unseen levels."""
    return of_part(rows, "end", split="test", **where)


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means over seeds of both measures on unseen levels, by algorithm and method."""
    return unseen(rows).groupby(["agent", "method"], sort=False)[[*MEASURES]].mean()


# -------------------------------------------------------------------------------------------- claims


def fits_training(rows: pd.DataFrame) -> bool:
    """Return whether agents without a method are worse on unseen levels than on training levels."""
    plain = of_part(rows, "end", method=AS_THEY_ARE).groupby(["agent", "split"])[[*MEASURES]].mean()
    gap = plain.xs("train", level="split") - plain.xs("test", level="split")
    return bool((gap > 0.05).all(axis=None))


def variation_helps(rows: pd.DataFrame) -> bool:
    """Return whether varied designs raise neutrality more than all other methods do, without a loss of usefulness."""
    of_varied = of_part(rows, "difference", method=VARIED)
    neutrality = means(rows)["neutrality"]
    best = neutrality.groupby("agent", sort=False).max()
    has_best = neutrality.xs(VARIED, level="method").loc[best.index] == best
    raises = (of_varied[of_varied.measure == "neutrality"].low > 0).all()
    keeps = (of_varied[of_varied.measure == "usefulness"].y > 0).all()
    return bool(raises and keeps and has_best.all())


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "Agents fit a few training levels: without a method, usefulness on unseen levels is {plain_u}, and neutrality "
    "{plain_n}; both are lower than on training levels.": fits_training,
    "Varied designs help most: on unseen levels, neutrality rises to {varied_n}, and usefulness is {varied_u}.": (
        variation_helps
    ),
}


def _by_algorithm(rows: pd.DataFrame, method: str, measure: str) -> str:
    """Return the mean of each algorithm as text: ``0.85 (exact gradients) and 0.80 (PPO)``."""
    of_method = means(rows).xs(method, level="method")[measure]
    return " and ".join(f"{number:.2f} ({agent})" for agent, number in of_method.items())


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "seeds": lambda rows: unseen(rows).seed.nunique(),
    "plain_u": partial(_by_algorithm, method=AS_THEY_ARE, measure="usefulness"),
    "plain_n": partial(_by_algorithm, method=AS_THEY_ARE, measure="neutrality"),
    "varied_u": partial(_by_algorithm, method=VARIED, measure="usefulness"),
    "varied_n": partial(_by_algorithm, method=VARIED, measure="neutrality"),
}


# -------------------------------------------------------------------------------- figures and tables


def by_method(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot a measure on unseen levels, with a row for each method."""
    series = dots_of(unseen(rows), row="method", value=measure, by="agent", spread=RANGE)
    return dot_figure(series, title="Unseen levels, by method", xlabel=MEASURES[measure], ylabel="")


def method_table(rows: pd.DataFrame, agent: str) -> Table:
    """Return the table of an algorithm with each method."""
    ends = of_part(rows, "end", agent=agent)
    columns = {
        f"{MEASURES[measure]}, {label}": ends[ends.split == split]
        .groupby("method", sort=False)[measure]
        .agg(mean_range)
        for split, label in reversed(SPLITS.items())
        for measure in MEASURES
    }
    note = "The mean, the lowest and the highest seed."
    return table_of(pd.DataFrame(columns), agent, first="method", note=note)


def difference_table(rows: pd.DataFrame, agent: str) -> Table:
    """Return the table of an algorithm's differences from agents without a method, on unseen levels."""
    differences = of_part(rows, "difference", agent=agent)
    cells: dict[str, dict[str, str]] = {}
    for row in differences.itertuples():
        texts = cells.setdefault(row.method, {})
        texts[MEASURES[row.measure]] = difference_text(row.y, row.low, row.high)
        texts[f"p, {row.measure}"] = p_text(row.p)
    note = "Means with 95 % bootstrap intervals over seeds and levels. p is corrected for all comparisons (Holm)."
    frame = pd.DataFrame.from_dict(cells, orient="index").fillna(MISSING)
    title = f"{agent}: unseen levels, less training levels as they are"
    return table_of(frame, title, first="method", note=note)


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    measure: partial(by_method, measure=measure) for measure in MEASURES
}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "exact": partial(method_table, agent="exact gradients"),
    "ppo": partial(method_table, agent="PPO"),
    "exact_differences": partial(difference_table, agent="exact gradients"),
    "ppo_differences": partial(difference_table, agent="PPO"),
}
