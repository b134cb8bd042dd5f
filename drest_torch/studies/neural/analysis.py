"""The agents of the study of networks: what their runs have measured, and what a uniform policy would."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Level, world
from drest_torch.jobs.job import Result
from drest_torch.jobs.tabular_job import SHOWN, last, p_longest
from drest_torch.metrics import share_of_best
from drest_torch.report.tables import select, values
from drest_torch.statistics.bootstrap import Interval, median
from drest_torch.statistics.intervals import runs_interval
from drest_torch.statistics.times import hitting_times

CLOCK = "steps"
"""Of training and of evaluation."""
TABLE, UNIFORM = "table", "uniform"
"""What stands in the column ``algorithm`` for tabular agents, and for the policy that moves at random."""
MEASURES = ("usefulness", "neutrality")
NOTICED, LEARNED = 0.1, 0.9
"""P(longer) at which agents have found the longer trajectory, and usefulness at which they have learned one."""


class Kind(NamedTuple):
    """The columns of the results that tell agents apart: the world, the algorithm or the table, the reward, and what is
    different from other runs, in words."""

    level: str
    algorithm: str
    reward: str
    change: str = ""


@dataclass(frozen=True)
class History:
    """The measures [T, A] of agents over training, all evaluated after the same environment steps [T]."""

    steps: np.ndarray
    usefulness: np.ndarray
    neutrality: np.ndarray
    p_longer: np.ndarray

    def notices(self, mark: float) -> np.ndarray:
        """Return [A] the steps after which P(longer) is at the mark for the first time; never is inf."""
        return hitting_times(self.steps, self.p_longer, mark, window=1, for_good=False)

    def learns(self, mark: float) -> np.ndarray:
        """Return [A] the steps from which on usefulness stays at the mark; never is inf."""
        return hitting_times(self.steps, self.usefulness, mark, window=1)

    def arrival(self, mark: float) -> np.ndarray:
        """Return [A] the steps from which on usefulness and neutrality stay at the mark; never is inf."""
        return hitting_times(self.steps, np.minimum(self.usefulness, self.neutrality), mark, window=1)


@dataclass(frozen=True)
class Agents:
    """The agents of one kind whose runs have finished, A of them, at the end of training and during it."""

    lengths: list[int]
    usefulness: np.ndarray
    neutrality: np.ndarray
    p_length: np.ndarray
    """[A, K]"""
    share_of_best: np.ndarray
    """[A, K] of m, given the length."""
    histories: list[History]
    results: list[Result]

    def metrics(self, mark: float, better: int) -> dict[str, np.ndarray]:
        """Return [A] everything that is published of each agent; ``better`` is the column of the best-paid length."""
        seconds = [result.numbers["wall_seconds"] for result in self.results if "wall_seconds" in result.numbers]
        return {
            "usefulness": self.usefulness,
            "neutrality": self.neutrality,
            "both": (self.usefulness >= mark) & (self.neutrality >= mark),
            "p_longer": self.p_length[:, -1],
            "p_better": self.p_length[:, better],
            "share_shorter": self.share_of_best[:, 0],
            "share_longer": self.share_of_best[:, -1],
            "steps_until_both": np.concatenate([history.arrival(mark) for history in self.histories]),
            "steps_until_longer": np.concatenate([history.notices(NOTICED) for history in self.histories]),
            "steps_until_useful": np.concatenate([history.learns(LEARNED) for history in self.histories]),
        } | ({"seconds": np.array(seconds)} if seconds else {})

    def typical(self) -> int:
        """Return the agent whose P(longer) is the median, of tabular ones among those whose tables are kept."""
        chosen = self.p_length[:SHOWN, -1]
        return int(np.argsort(chosen)[len(chosen) // 2])


def networks(results: list[Result]) -> Agents:
    """Return the agents of training runs, one of each."""

    def stacked(name: str) -> np.ndarray:
        return np.stack([result.arrays[f"train/{name}"] for result in results])

    lengths: list[int] = results[0].arrays["train/lengths"].tolist()
    names = (*MEASURES, f"p_length/{lengths[-1]}")
    histories = [
        History(result.arrays["steps"], *(result.arrays[f"eval/train/{name}"][:, None] for name in names))
        for result in results
    ]
    useful, neutral = (stacked(name)[:, 0] for name in MEASURES)
    return Agents(lengths, useful, neutral, stacked("p_length"), stacked("share_of_best"), histories, results)


def tabular(result: Result, name: str, gamma: float, random_episodes: int) -> Agents:
    """Return the agents of a run of tabular ones, which begins with so many mini-episodes of random play."""
    steps = table_steps(result, chance(name, gamma), random_episodes)
    measures = [*(result.arrays[f"{CLOCK}/{measure}"].astype(float) for measure in MEASURES), p_longest(result, CLOCK)]
    useful, neutral, p_length, share = (last(result, CLOCK, name) for name in (*MEASURES, "p_length", "share_of_best"))
    return Agents(result.numbers["lengths"], useful, neutral, p_length, share, [History(steps, *measures)], [result])


def table_steps(result: Result, chance: Chance, random_episodes: int) -> np.ndarray:
    """Return [T] environment steps of an agent: known at the end of random play and at the end, even between them."""
    episodes = result.arrays["episodes"]
    length = float(chance.lengths @ chance.probability)
    total = result.numbers["steps"] / result.arrays[f"{CLOCK}/usefulness"].shape[1]
    later = np.maximum(episodes - random_episodes, 0) / (episodes[-1] - random_episodes)
    return np.minimum(episodes, random_episodes) * length + later * (total - random_episodes * length)


# ---------------------------------------------------------------------------------------- by chance


@dataclass(frozen=True)
class Chance:
    """The lengths of a world and the best return of each [K], and what a uniform policy does."""

    lengths: np.ndarray
    best_return: np.ndarray
    probability: np.ndarray
    share_of_best: np.ndarray

    @property
    def better(self) -> int:
        """The column of the length that pays more."""
        return int(self.best_return.argmax())

    def metrics(self) -> dict[str, float]:
        """Return what is published of the uniform policy."""
        return {
            "best_return_ratio": self.best_return[-1] / self.best_return[0],
            "p_longer": self.probability[-1],
            "share_shorter": self.share_of_best[0],
            "share_longer": self.share_of_best[-1],
            "episodes_per_best": 1 / (self.probability[-1] * self.share_of_best[-1]),
        }


@lru_cache
def chance(name: str, gamma: float) -> Chance:
    """Return what there is in a world, and what a uniform policy comes upon."""
    mdp = compile_levels([level(name)])
    optima, uniform = solve(mdp, gamma), Reachable(mdp).evaluate(uniform_policy, gamma)
    share = share_of_best(uniform.coins, optima.best_return)
    arrays = (optima.lengths, optima.best_return, uniform.probability, share)
    return Chance(*(each[0].numpy() for each in arrays))


def level(name: str) -> Level:
    """Return a world on the clock of this study."""
    return world(name).with_clock(CLOCK)


# -------------------------------------------------------------------------------------- comparisons


@dataclass(frozen=True)
class Total:
    """The agents of an algorithm in all worlds."""

    agents: int
    good: int
    seeds: int
    """In each world; of one seed an interval says nothing."""
    usefulness: Interval
    neutrality: Interval

    def text(self, measure: str) -> str:
        """Return the mean, with its interval where there are several seeds."""
        interval: Interval = getattr(self, measure)
        return str(interval) if self.seeds > 1 else f"{interval.estimate:.3f}"


def total(results: pd.DataFrame) -> Total | None:
    """Return means with 95 % intervals of one algorithm and reward, over the worlds in which no run is missing."""
    if results.empty:
        return None
    counts = select(results, metric="both").groupby("level", sort=False)["value"].size()
    whole = counts.index[counts == counts.max()]
    means = [
        runs_interval(np.stack([values(results, metric=measure, level=name) for name in whole], 1)).within(0, 1)
        for measure in MEASURES
    ]
    good = values(results, metric="both")
    return Total(len(good), int(good.sum()), int(counts.max()), *means)


def summary(results: pd.DataFrame) -> dict[str, Any]:
    """Return the agents of one kind in numbers: medians with the lowest and highest value, and counts."""
    good, arrival = values(results, metric="both"), float(median(values(results, metric="steps_until_both")))
    return {
        "agents": len(good),
        **{metric: middle_and_ends(values(results, metric=metric)) for metric in (*MEASURES, "p_longer")},
        "both": int(good.sum()),
        "steps_until_both": arrival if np.isfinite(arrival) else None,
    }


def middle_and_ends(values: np.ndarray) -> list[float]:
    """Return the median, the lowest and the highest value."""
    return [float(np.median(values)), float(values.min()), float(values.max())]
