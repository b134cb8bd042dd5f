"""Networks in place of the table (section 8.1 of the paper): every algorithm in the paper's nine worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import TabularTraining, last
from drest_torch.jobs.training_job import merge_arguments, training_jobs
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import RANGE, Curve, curve_figure, curves_of, dot_figure, dots_of
from drest_torch.report.tables import MISSING, PAPER, count, mean_range, table_of
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.shared import EXAMPLE, REWARDS, WORLDS, of_part, tables_job, title
from drest_torch.tracking.effort import is_exact

CLOCK = "steps"
"""The clock of training and of evaluation, which is the clock of the worlds."""
TABLE = "table"
TITLES = {"reinforce": "REINFORCE", "a2c": "A2C", "ppo": "PPO", "exact": "exact gradients", TABLE: TABLE}
GAMMA = 0.9
"""γ of the networks, the paper's value in these worlds except the running example."""
NETWORKS = ("reinforce", "a2c", "ppo", "exact")
EXPECTED = ("a2c", "ppo")
"""The algorithms for which the paper expects no major difficulties."""
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}
MOST_NAMED = 12
"""The maximum number of worlds that a sentence names."""
POINTS = 17
"""Points of a learning curve: the default number of evaluations during training."""
MARK = 0.95
"""The least usefulness and neutrality of an agent that counts as useful and neutral."""


@dataclass
class Config(StudyConfig):
    seeds: int = limited(at_least=1, default=5)
    """Networks of each algorithm with each reward. A network is trained in all nine worlds together."""
    algorithms: dict[str, int] = value({"reinforce": 6000000, "a2c": 6000000, "ppo": 3000000, "exact": 6000000})
    """The algorithms that train networks, and their budgets in environment steps; for exact gradients, updates ×
    `algo.counted_steps`. Other settings are those of ``drest train algo=ALGORITHM levels=paper``."""
    overrides: list[str] = value([])
    """Arguments that override those of all runs of networks: ["policy.width=16"], for instance."""
    agents: int = limited(at_least=1, default=20)
    """Tables with each reward in each world; a table is trained in one world."""
    training: TabularTraining = value(replace(EXAMPLE, random_episodes=524288))
    """Training of the tables in the running example."""
    in_worlds: dict[str, Any] = value(WORLDS)
    """Changes to the training of tables in the other worlds."""


QUICK = {
    "seeds": 2,
    "overrides": ["env_steps=20000", "policy.width=16", "evaluations=2"],
    "agents": 3,
    "training": {"meta_episodes": 32, "decay_episodes": 1024, "random_episodes": 2048},
    "in_worlds": {"meta_episodes": 32, "decay_episodes": 1024},
}


class Key(NamedTuple):
    algorithm: str
    """The algorithm of a network, or `TABLE` for a run of several tables."""
    reward: str
    world: str = ""
    """The world of tables; networks have none, since they are trained in all worlds."""
    seed: int = 0


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the networks of each algorithm, then the tables of each world, with both rewards."""
    runs: dict[Key, Job] = {}
    for reward, (algo, steps) in product(REWARDS, cfg.algorithms.items()):
        arguments = [f"algo={algo}", "levels=paper", f"reward={reward}", f"reward.gamma={GAMMA}", f"env_steps={steps}"]
        by_seed = training_jobs(
            f"{algo}-{reward}", range(cfg.seeds), arguments=merge_arguments(arguments, cfg.overrides)
        )
        runs |= {Key(algo, reward, seed=seed): job for seed, job in enumerate(by_seed)}
    for reward, name in product(REWARDS, PAPER_WORLDS):
        changes = {} if name == "example" else dict(cfg.in_worlds)
        changes |= {"world": name, "reward": reward, "clock": CLOCK, "evaluate_every": cfg.training.meta_episodes}
        runs[Key(TABLE, reward, name)] = tables_job(cfg, f"{TABLE}-{reward}-{name}", **changes)
    return runs


# ---------------------------------------------------------------------------------------------- rows


def rows(cfg: Config, done: Mapping[Key, Result]) -> pd.DataFrame:
    """Return two kinds of rows, by the column ``part``.

    - end: an agent in a world at the end of training,
    - curve: the means over worlds of a network during training; ``effort`` is environment steps, or updates of exact
      gradients, which sample nothing.
    """
    parts = []
    for key, result in done.items():
        key_columns = {"algorithm": key.algorithm, "reward": key.reward}
        if key.algorithm == TABLE:
            ends = {metric: last(result, CLOCK, metric).round(4) for metric in MEASURES}
            agents = pd.DataFrame({"part": "end", **key_columns, "world": key.world, **ends})
            parts.append(agents.rename_axis("seed").reset_index())
            continue
        ends = {metric: result.arrays[f"train/{metric}"].round(4) for metric in MEASURES}
        parts.append(pd.DataFrame({"part": "end", **key_columns, "seed": key.seed, "world": [*PAPER_WORLDS], **ends}))
        parts.append(pd.DataFrame({"part": "curve", **key_columns, "seed": key.seed, **curve_of(result)}))
    return pd.concat(parts, ignore_index=True)


def curve_of(result: Result) -> dict[str, np.ndarray]:
    """Return the means over worlds at equal shares of training."""
    steps = result.arrays["steps"]
    shares = np.linspace(0, 1, POINTS)
    end = result.numbers["updates"] if is_exact(result.numbers) else _rounded(result.numbers["env_steps"])
    curve = {"effort": (shares * end).round(0)}
    for metric in MEASURES:
        curve[metric] = np.interp(shares, steps / steps[-1], result.arrays[f"eval/train/{metric}"]).round(4)
    return curve


def _rounded(steps: int) -> float:
    """Return steps rounded to two digits, because runs with different seeds end at different steps."""
    return float(f"{steps:.1e}")


def networks(rows: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Return the ends of networks."""
    ends = of_part(rows, "end", **where)
    return ends[ends.algorithm != TABLE]


def is_good(ends: pd.DataFrame) -> pd.Series:
    """Return for each end whether usefulness and neutrality are at least the mark."""
    return ends[[*MEASURES]].min(axis=1) >= MARK


def over_worlds(ends: pd.DataFrame) -> pd.DataFrame:
    """Return the means over worlds, by algorithm and seed."""
    return ends.groupby(["algorithm", "seed"], sort=False)[[*MEASURES]].mean()


# -------------------------------------------------------------------------------------------- claims


def networks_learn(rows: pd.DataFrame) -> bool:
    """Return whether every algorithm is useful and neutral on average."""
    means = over_worlds(networks(rows, reward="drest")).groupby("algorithm").mean()
    return bool((means > 0.9).all(axis=None))


def default_is_not_neutral(rows: pd.DataFrame) -> bool:
    """Return whether networks with the default reward are useful, but far from neutral."""
    means = over_worlds(networks(rows, reward="default")).groupby("algorithm").mean()
    return bool((means.usefulness > 0.9).all() and (means.neutrality < 0.2).all())


def curves_rise(rows: pd.DataFrame) -> bool:
    """Return whether usefulness and neutrality of every algorithm rise during training."""
    curves = of_part(rows, "curve", reward="drest").groupby(["algorithm", "effort"])[[*MEASURES]].mean()
    by_algorithm = curves.groupby("algorithm")
    return bool((by_algorithm.last() > by_algorithm.first() + 0.5).all(axis=None))


def some_settle_early(rows: pd.DataFrame) -> bool:
    """Return whether each algorithm without a critic is below the mark in some world."""
    ends = networks(rows, reward="drest")
    ends = ends[~ends.algorithm.isin(EXPECTED)]
    return bool((~is_good(ends)).groupby(ends.algorithm).any().all())


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "Every algorithm trains networks that are useful and neutral: on average over worlds and seeds, usefulness is at "
    "least {least_u} and neutrality at least {least_n}.": networks_learn,
    "PPO and A2C have no large difficulties, as the paper expects: in every world and with every seed, usefulness and "
    "neutrality are at least 0.95.": lambda rows: is_good(expected(rows)).all(),
    "REINFORCE settles too early in some worlds, and so do exact gradients, although they have no noise. Below 0.95 "
    "are (number of seeds): {missed}.": some_settle_early,
    "The reward makes the difference: with the default reward, the mean neutrality of every algorithm is at most "
    "{most_default_n}.": default_is_not_neutral,
    "Usefulness and neutrality rise during training with DReST, with every algorithm.": curves_rise,
}


def expected(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ends of networks trained with DReST by an algorithm that the paper names."""
    ends = networks(rows, reward="drest")
    return ends[ends.algorithm.isin(EXPECTED)]


def missed(rows: pd.DataFrame) -> str:
    """Return the worlds in which DReST networks are below the mark, with their number; if there are many, only the
    number."""
    ends = networks(rows, reward="drest")
    bad = ends[~is_good(ends)].groupby(["algorithm", "world"], sort=False).size()
    if len(bad) > MOST_NAMED:
        return f"{bad.sum()} of {len(ends)}"
    texts = [f"{TITLES[algo]} in {title(name)} ({number})" for (algo, name), number in bad.items()]
    return "; ".join(texts) or "none"


def extreme(rows: pd.DataFrame, reward: str, metric: str, which: str) -> str:
    """Return the lowest or the highest mean of an algorithm."""
    means = over_worlds(networks(rows, reward=reward))[metric].groupby("algorithm").mean()
    return f"{means.agg(which):.3f}"


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "least_u": partial(extreme, reward="drest", metric="usefulness", which="min"),
    "least_n": partial(extreme, reward="drest", metric="neutrality", which="min"),
    "most_default_n": partial(extreme, reward="default", metric="neutrality", which="max"),
    "missed": missed,
    "seeds": lambda rows: networks(rows).seed.nunique(),
    "agents": lambda rows: of_part(rows, "end", algorithm=TABLE).seed.nunique(),
}


# -------------------------------------------------------------------------------- figures and tables


def in_worlds(rows: pd.DataFrame, metric: str) -> Plot:
    """Plot a measure of agents with DReST, with a row for each world."""
    ends = of_part(rows, "end", reward="drest")
    ends = ends.assign(world=ends.world.map(title))
    return dot_figure(
        dots_of(ends, row="world", value=metric, by="algorithm", spread=RANGE, labels=TITLES),
        title="The paper's nine worlds, DReST",
        xlabel=MEASURES[metric],
        ylabel="",
        lines={MARK: f"{MARK:g}"},
    )


def learning(rows: pd.DataFrame, algorithm: str) -> Plot:
    """Plot the means over worlds of usefulness and neutrality during training with an algorithm."""
    curves: list[Curve] = []
    unit, xlabel = (1, "updates") if algorithm == "exact" else (1e6, "million environment steps")
    for reward, metrics in {"drest": ["usefulness", "neutrality"], "default": ["neutrality"]}.items():
        of_reward = of_part(rows, "curve", algorithm=algorithm, reward=reward)
        of_reward = of_reward.assign(effort=of_reward.effort / unit)
        for metric in metrics:
            name = f"{metric}, {REWARDS[reward]} reward"
            curves += curves_of(
                of_reward, x="effort", y=metric, by="algorithm", spread=RANGE, labels={algorithm: name}, look="-"
            )
    return curve_figure(
        curves,
        title=f"{TITLES[algorithm]}, the paper's nine worlds together",
        xlabel=xlabel,
        ylabel="usefulness; neutrality (bits)",
    )


def totals_table(rows: pd.DataFrame) -> Table:
    """Return the table of means over worlds by algorithm and reward, next to the paper's expectation."""
    cells: dict[str, dict[str, str]] = {}
    for reward in ("drest", "default"):
        ends = of_part(rows, "end", reward=reward)
        means, good = over_worlds(ends), is_good(ends)
        for algo in ends.algorithm.unique():
            texts = {metric: mean_range(means.loc[algo][metric]) for metric in MEASURES}
            texts[f"both ≥ {MARK:g}"] = count(good[ends.algorithm == algo]) if reward == "drest" else MISSING
            texts[PAPER] = "no large difficulties" if reward == "drest" and algo in EXPECTED else MISSING
            cells[f"{REWARDS[reward]}, {TITLES[algo]}"] = texts
    note = (
        "Means over worlds: the mean, the lowest and the highest seed. Both: how many results, one for each seed and "
        f"world, have usefulness and neutrality of at least {MARK:g}. Networks are trained in all worlds together, "
        "tables in each alone."
    )
    frame = pd.DataFrame.from_dict(cells, orient="index")
    return table_of(frame, "All worlds together", first="reward and algorithm", note=note)


def world_table(rows: pd.DataFrame, algorithm: str) -> Table:
    """Return the table of an algorithm in each world."""
    columns = {}
    for reward, metric in (("drest", "usefulness"), ("drest", "neutrality"), ("default", "neutrality")):
        ends = of_part(rows, "end", algorithm=algorithm, reward=reward)
        columns[f"{metric}, {REWARDS[reward]}"] = ends.groupby("world", sort=False)[metric].agg(mean_range)
    cells = pd.DataFrame(columns).reindex([*PAPER_WORLDS]).fillna(MISSING)
    cells.index = cells.index.map(title)
    note = "Mean, lowest and highest seed; neutrality in bits."
    return table_of(cells, f"{TITLES[algorithm]}, world by world", first="world", note=note)


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    **{metric: partial(in_worlds, metric=metric) for metric in MEASURES},
    **{algo: partial(learning, algorithm=algo) for algo in NETWORKS},
}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "totals": totals_table,
    **{algo: partial(world_table, algorithm=algo) for algo in NETWORKS},
}
