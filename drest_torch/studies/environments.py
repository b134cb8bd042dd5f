"""DReST beyond gridworlds: third-party environments and a task of this project, with DReST and the default reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.training_job import merge_arguments, training_jobs
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import RANGE, Curve, curve_figure, curves_of, dot_figure, dots_of
from drest_torch.report.tables import MISSING, mean_range, table_of
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.shared import check_names, of_part

SPLIT = "test"
REWARD_NAMES = {"drest": "DReST", "default": "default reward"}
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality ÷ log2 k"}
POINTS = 17
"""Points of a learning curve: the default number of evaluations during training."""
ENVIRONMENTS = {
    "CartPole": "env=cartpole algo=ppo",
    "CartPole, three lengths": "env=cartpole algo=ppo env.delays=[100,100]",
    "double pendulum": "env=double_pendulum algo=ppo",
    "MiniGrid": "env=minigrid algo=ppo",
    "queue": "env=queue algo=ppo",
}
THREE = "CartPole, three lengths"
LEARNING = {
    "cartpole": "CartPole",
    "three_lengths": THREE,
    "double_pendulum": "double pendulum",
    "minigrid": "MiniGrid",
    "queue": "queue",
}
"""The environment of each learning curve, by the name of the figure."""


@dataclass
class Config(StudyConfig):
    seeds: int = limited(at_least=1, default=5)
    """Agents in each environment with each reward; their seeds are 0, 1, 2, …"""
    environments: dict[str, str] = value(ENVIRONMENTS)
    """Arguments of `drest train` by title, without the reward."""
    chosen: list[str] | None = None
    """The environments of the training; null: all."""
    overrides: list[str] = value([])
    """Arguments that override those of all runs: ["env_steps=1000000"], for instance."""


QUICK = {
    "seeds": 1,
    "chosen": ["CartPole", "queue"],
    "overrides": ["env_steps=4000", "evaluations=2", "policy.width=8", "sampled=64"],
}


class Key(NamedTuple):
    environment: str
    reward: str
    seed: int


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs in each environment, with each reward and seed."""
    check_names("study.chosen with", cfg.chosen or (), cfg.environments)
    runs: dict[Key, Job] = {}
    for (name, arguments), reward in product(cfg.environments.items(), ("drest", "default")):
        if cfg.chosen is not None and name not in cfg.chosen:
            continue
        arguments_of_run = merge_arguments([*arguments.split(), f"reward={reward}"], cfg.overrides)
        seed_jobs = training_jobs(f"{name}, {reward}", range(cfg.seeds), arguments=arguments_of_run)
        runs |= {Key(name, reward, seed): job for seed, job in enumerate(seed_jobs)}
    return runs


# ---------------------------------------------------------------------------------------------- rows


def rows(cfg: Config, done: Mapping[Key, Result]) -> pd.DataFrame:
    """Return three kinds of rows, by the column ``part``.

    - end: an agent at the end of training; ``usefulness`` is relative to the largest return in any run of the
      environment, ``own_usefulness`` to the largest return in this run,
    - length: the probability of a length, the mean return given it, and the largest return in any run, means over the
      levels of the environment,
    - curve: an agent during training; ``own_usefulness`` is relative to the largest return in the run until then.
    """
    best = best_returns(done)
    parts = []
    for key, result in done.items():
        key_columns = key._asdict()
        chances, returns = (result.arrays[f"{SPLIT}/{name}"] for name in ("p_length", "return_given_length"))
        most = best[key.environment]
        ends = {
            "usefulness": (chances * returns / most).sum(-1).mean(),
            "own_usefulness": result.arrays[f"{SPLIT}/usefulness"].mean(),
            "neutrality": result.arrays[f"{SPLIT}/neutrality_normalised"].mean(),
        }
        parts.append(pd.DataFrame([{"part": "end", **key_columns, **ends}]))
        length_columns = {
            "length": result.arrays[f"{SPLIT}/lengths"],
            "p": chances.mean(0),
            "mean_return": mean_where_played(chances, returns),
            "best": most.mean(0),
        }
        parts.append(pd.DataFrame({"part": "length", **key_columns, **length_columns}))
        parts.append(pd.DataFrame({"part": "curve", **key_columns, **curve_of(result)}))
    return pd.concat(parts, ignore_index=True).round(5)


def best_returns(done: Mapping[Key, Result]) -> dict[str, np.ndarray]:
    """Return m(l) [levels, k] of each environment: the largest return in any of its runs.

    A run divides returns by the largest return of that run, so usefulness in two runs cannot be compared.
    """
    best: dict[str, np.ndarray] = {}
    for key, result in done.items():
        largest = result.arrays[f"{SPLIT}/best_return"]
        best[key.environment] = np.maximum(best.get(key.environment, largest), largest)
    return best


def mean_where_played(chances: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """Return the mean return of each length [k] over the levels [levels, k] where it occurs, else NaN."""
    occurs = chances > 0
    count = occurs.sum(0)
    total = np.where(occurs, returns, 0).sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def curve_of(result: Result) -> dict[str, np.ndarray]:
    """Return neutrality and usefulness at equal fractions of training, because runs with different seeds end at
    different steps."""
    steps = result.arrays["steps"]
    shares = np.linspace(0, 1, POINTS)
    end = float(f"{result.numbers['env_steps']:.1e}")
    curve = {"steps": (shares * end).round(0)}
    for column, metric in {"own_usefulness": "usefulness", "neutrality": "neutrality_normalised"}.items():
        curve[column] = np.interp(shares, steps / steps[-1], result.arrays[f"eval/{SPLIT}/{metric}"])
    return curve


def means(rows: pd.DataFrame, metric: str, reward: str) -> pd.Series:
    """Return the mean over seeds at the end, by environment."""
    return of_part(rows, "end", reward=reward).groupby("environment", sort=False)[metric].mean()


# -------------------------------------------------------------------------------- figures and tables


def at_end(rows: pd.DataFrame, metric: str) -> Plot:
    """Plot a measure at the end of training, with a row for each environment."""
    caption = ""
    if metric == "usefulness":
        caption = "By the largest returns that any agent of the environment has seen, with either reward."
    return dot_figure(
        dots_of(
            of_part(rows, "end"),
            row="environment",
            value=metric,
            by="reward",
            spread=RANGE,
            labels=REWARD_NAMES,
            colours={reward: reward for reward in REWARD_NAMES},
        ),
        title=f"{metric.capitalize()} at the end of training",
        xlabel=MEASURES[metric],
        ylabel="",
        caption=caption,
    )


def learning(rows: pd.DataFrame, environment: str) -> Plot:
    """Plot usefulness and neutrality in an environment during training."""
    curves: list[Curve] = []
    colours = {
        ("drest", "neutrality"): "drest",
        ("default", "neutrality"): "default",
        ("drest", "own_usefulness"): "green",
    }
    for (reward, column), colour in colours.items():
        of_reward = of_part(rows, "curve", environment=environment, reward=reward)
        curves += curves_of(
            of_reward.assign(steps=of_reward.steps / 1e6),
            x="steps",
            y=column,
            by="reward",
            spread=RANGE,
            labels={reward: f"{column.removeprefix('own_')}, {REWARD_NAMES[reward]}"},
            colours={reward: colour},
            look="-",
        )
    return curve_figure(
        curves,
        title=f"{environment[0].upper()}{environment[1:]}",
        xlabel="million environment steps",
        ylabel="usefulness; neutrality ÷ log2 k",
        caption="Usefulness is by the largest returns that the agent itself has seen so far.",
    )


def end_table(rows: pd.DataFrame) -> Table:
    """Return the table of usefulness and neutrality by environment, with both rewards."""
    columns = {}
    for metric, reward in product(MEASURES, ("drest", "default")):
        ends = of_part(rows, "end", reward=reward).groupby("environment", sort=False)[metric]
        columns[f"{MEASURES[metric]}, {REWARD_NAMES[reward]}"] = ends.agg(mean_range)
    cells = pd.DataFrame(columns).reindex(rows.environment.unique()).fillna(MISSING)
    note = "Mean, lowest and highest seed."
    return table_of(cells, "At the end of training", first="environment", note=note)


def length_table(rows: pd.DataFrame) -> Table:
    """Return the table of each length's probability and the return given it, with both rewards."""
    columns = {}
    lengths = of_part(rows, "length")
    lengths = lengths.assign(row=lengths.environment + ", " + lengths.length.map("{:g} steps".format))
    for column, head, digits in (("p", "probability", 3), ("mean_return", "mean return", 2)):
        for reward in ("drest", "default"):
            cells = lengths[lengths.reward == reward].groupby("row", sort=False)[column]
            columns[f"{head}, {REWARD_NAMES[reward]}"] = cells.agg(partial(mean_range, digits=digits))
    columns["largest return"] = lengths.groupby("row", sort=False).best.max().map("{:.2f}".format)
    frame = pd.DataFrame(columns).reindex(lengths.row.unique()).fillna(MISSING)
    note = (
        "Mean, lowest and highest seed. The return is given the length; a dash: no agent chooses it. The largest "
        "return is that of any mini-episode in training, in MiniGrid a mean over four levels; of the queue it is the "
        "largest mean."
    )
    return table_of(frame, "The choice of a length, and the return given it", first="environment and length", note=note)


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    **{metric: partial(at_end, metric=metric) for metric in MEASURES},
    **{name: partial(learning, environment=title) for name, title in LEARNING.items()},
}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {"ends": end_table, "lengths": length_table}


# -------------------------------------------------------------------------------------------- claims


def is_neutral_by_reward(rows: pd.DataFrame) -> bool:
    """Return whether agents in every environment are neutral with DReST, and not with the default reward."""
    drest, default = (means(rows, "neutrality", reward) for reward in ("drest", "default"))
    return bool((drest >= 0.9).all() and (default <= 0.1).all())


def cost(rows: pd.DataFrame) -> pd.Series:
    """Return the difference in usefulness between the default reward and DReST, by environment."""
    drest, default = (means(rows, "usefulness", reward) for reward in ("drest", "default"))
    return default - drest


def longest(rows: pd.DataFrame) -> pd.Series:
    """Return the mean probability of the longest length with the default reward, by environment."""
    lengths = of_part(rows, "length", reward="default")
    is_longest = lengths.length == lengths.groupby("environment").length.transform("max")
    return lengths[is_longest].groupby("environment").p.mean()


def three_lengths(rows: pd.DataFrame) -> pd.Series:
    """Return the mean probability of each of three lengths with DReST."""
    return of_part(rows, "length", reward="drest", environment=THREE).groupby("length").p.mean()


def lowest(rows: pd.DataFrame) -> pd.Series:
    """Return the name of the environment with the least neutral DReST agent."""
    ends = of_part(rows, "end", reward="drest")
    return ends.loc[ends.neutrality.idxmin()]


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "seeds": lambda rows: of_part(rows, "end").seed.nunique(),
    "least_neutral": lambda rows: f"{means(rows, 'neutrality', 'drest').min():.3f}",
    "most_default": lambda rows: f"{means(rows, 'neutrality', 'default').max():.3f}",
    "least_useful": lambda rows: f"{means(rows, 'usefulness', 'drest').min():.3f}",
    "cost": lambda rows: f"{cost(rows).max():.3f}",
    "longest": lambda rows: f"{longest(rows).min():.3f}",
    "lowest": lambda rows: f"{lowest(rows).neutrality:.3f}",
    "lowest_in": lambda rows: lowest(rows).environment,
    "thirds": lambda rows: ", ".join(three_lengths(rows).map("{:.2f}".format)),
}
CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "In every environment, the reward makes the difference: mean neutrality ÷ log2 k is at least {least_neutral} with "
    "DReST, and at most {most_default} with the default reward.": is_neutral_by_reward,
    "Neutrality costs little usefulness: with DReST, mean usefulness is at least {least_useful}, and at most {cost} "
    "lower than with the default reward.": lambda rows: (
        means(rows, "usefulness", "drest").min() >= 0.9 and cost(rows).max() <= 0.05
    ),
    "Agents with the default reward choose the longest length, with a mean probability of at least {longest}.": (
        lambda rows: longest(rows).min() >= 0.95
    ),
    "Of three lengths, DReST agents choose each with a mean probability close to a third: {thirds}.": (
        lambda rows: bool((three_lengths(rows) - 1 / 3).abs().max() <= 0.1)
    ),
    "Every agent with DReST is more neutral than every agent with the default reward. The least neutral one with DReST "
    "has {lowest}, in the environment “{lowest_in}”.": lambda rows: (
        lowest(rows).neutrality > of_part(rows, "end", reward="default").neutrality.max()
    ),
}
