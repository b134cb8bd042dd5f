"""How many mini-episodes agents take to become useful, and how the two rewards compare in that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from drest_torch.envs.levels import world
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import last
from drest_torch.report.tables import MISSING
from drest_torch.statistics.bootstrap import Interval, bootstrap, median, ratio
from drest_torch.statistics.times import hitting_times
from drest_torch.studies.clock_pairs import RANDOM_FIRST, REWARDS

if TYPE_CHECKING:
    from drest_torch.studies.tax.study import Config

PAPERS, MOVES = "moves / steps", "moves / moves"
"""The clocks that the paper's figures were made on, as the study `example` found; and those that agents learn on."""


@dataclass(frozen=True)
class Case:
    """Agents of both rewards on a world, trained on one clock and evaluated on one."""

    world: str
    trained: str
    evaluated: str
    jobs: dict[str, Job]
    """By reward."""
    early: dict[str, Job]
    """By reward: the same agents' first mini-episodes, evaluated more often; may be empty."""
    random_episodes: int = 0
    """Of random play at the beginning, from whose end the time is counted."""

    @property
    def clocks(self) -> str:
        return RANDOM_FIRST if self.random_episodes else f"{self.trained} / {self.evaluated}"

    @property
    def title(self) -> str:
        return str(world(self.world).study["title"]).replace("The running example", "Running example")

    @property
    def name(self) -> str:
        return f"{self.title}, {self.clocks}"


@dataclass(frozen=True)
class Agents:
    """The agents of a case with one reward."""

    episodes: np.ndarray
    """[T] mini-episodes played, since random play has ended."""
    usefulness: np.ndarray
    """[T, A]"""
    final: np.ndarray
    """[A] their final usefulness"""
    longer: float
    """The share of them that prefers the longest trajectory at the end."""


def join(cfg: Config, case: Case, result: Result, early: Result | None) -> Agents:
    """Return the agents of a run, with their first mini-episodes evaluated more often where ``early`` is given."""
    name = f"{case.evaluated}/usefulness"
    episodes, usefulness = result.arrays["episodes"], result.arrays[name].astype(float)
    final = usefulness[-cfg.final_evaluations :].mean(0)
    if early is not None:
        later = episodes > early.arrays["episodes"][-1]
        episodes = np.concatenate([early.arrays["episodes"], episodes[later]])
        usefulness = np.concatenate([early.arrays[name].astype(float), usefulness[later]])
    longer = (last(result, case.evaluated, "p_length")[:, -1] > 0.5).mean()
    return Agents(np.maximum(episodes - case.random_episodes, 0), usefulness, final, float(longer))


@dataclass(frozen=True)
class Tax:
    """The times that the agents of a case take, and the ratios of their medians."""

    case: Case
    default: Agents
    drest: Agents
    cfg: Config

    def agents(self, reward: str) -> Agents:
        return self.drest if reward == "drest" else self.default

    def times(self, reward: str, share: float, *, for_good: bool = True, common: bool = False) -> np.ndarray:
        """Return [A] the times until a share of the own final usefulness; if ``common``, of the default's median."""
        agents = self.agents(reward)
        final = np.median(self.default.final) if common else agents.final
        return hitting_times(
            agents.episodes, agents.usefulness, share * final, window=self.cfg.window, for_good=for_good
        )

    def time(self, reward: str, share: float) -> Interval:
        """Return the median agent's time, in thousands."""
        return bootstrap(self.times(reward, share) / 1000, median, level=self.cfg.level, resamples=self.cfg.resamples)

    def ratio(self, share: float, *, for_good: bool = True, common: bool = False) -> Interval:
        """Return the median time of DReST agents ÷ that of default agents."""
        drest, default = (
            self.times(reward, share, for_good=for_good, common=common) for reward in ("drest", "default")
        )
        return ratio(drest, default, level=self.cfg.level, resamples=self.cfg.resamples)

    @cached_property
    def ratios(self) -> dict[float, Interval]:
        return {share: self.ratio(share) for share in self.cfg.shares}

    @cached_property
    def common(self) -> Interval:
        """Return the ratio at the headline's share of the default agents' median final usefulness."""
        return self.ratio(self.cfg.headline, common=True)

    @property
    def later(self) -> float:
        """Return by how many thousand mini-episodes DReST's median agent gets to the headline's share later."""
        drest, default = (np.median(self.times(reward, self.cfg.headline)) for reward in ("drest", "default"))
        return float(drest - default) / 1000

    @property
    def worst(self) -> float:
        """Return the share with the largest ratio, of those that have one."""
        estimates = {
            share: interval.estimate for share, interval in self.ratios.items() if not np.isnan(interval.estimate)
        }
        return max(estimates, key=lambda share: estimates[share])

    @property
    def prefers_longer(self) -> bool:
        """Return whether most default agents prefer the longer trajectory."""
        return self.default.longer > 0.5

    def numbers(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "clocks": self.case.clocks,
            "final": {reward: float(np.median(self.agents(reward).final)) for reward in REWARDS},
            "default_longer": self.default.longer,
            "thousands": {
                reward: {f"{share:g}": _three(self.time(reward, share)) for share in self.cfg.shares}
                for reward in REWARDS
            },
            "ratio": {f"{share:g}": _three(interval) for share, interval in self.ratios.items()},
            "ratio_of_default_final": _three(self.common),
            "thousands_later": self.later,
            "never": {
                reward: {f"{s:g}": int(np.isinf(self.times(reward, s)).sum()) for s in self.cfg.shares}
                for reward in REWARDS
            },
        }


def _three(interval: Interval) -> list[float]:
    return [interval.estimate, interval.low, interval.high]


# ------------------------------------------------------------------------------------------ findings


def on(taxes: Sequence[Tax], clocks: str) -> list[Tax]:
    """Return those on a pair of clocks."""
    return [tax for tax in taxes if tax.case.clocks == clocks]


def known(taxes: Sequence[Tax], share: float) -> list[Tax]:
    """Return those that have a ratio: default agents were not there at once, and not both groups never."""
    return [t for t in taxes if np.median(t.times("default", share)) > 0 and not np.isnan(t.ratios[share].estimate)]


def summarise(cfg: Config, taxes: Sequence[Tax], common: bool = False) -> dict[str, Any] | None:
    """Return the range of the ratios at the headline's share, where they are largest, and how many are small."""
    ratios = {tax.case.title: (tax.common if common else tax.ratios[cfg.headline]).estimate for tax in taxes}
    ratios = {title: estimate for title, estimate in ratios.items() if not np.isnan(estimate)}
    if not ratios:
        return None
    return {
        "range": range_text(list(ratios.values())),
        "most": max(ratios, key=lambda title: ratios[title]),
        "small": sum(estimate <= cfg.small for estimate in ratios.values()),
        "of": len(ratios),
        "later": max(tax.later for tax in taxes),
    }


def differences(cfg: Config, taxes: Sequence[Tax]) -> dict[str, list[Any]]:
    """Return where DReST is slower, and faster, beyond the interval, and where the ratio of any share is not small."""
    ratios = sorted(((tax.case.title, tax.ratios[cfg.headline]) for tax in taxes), key=lambda item: -item[1].estimate)
    worst = [(tax.case.title, tax.ratios[tax.worst].estimate, tax.worst) for tax in taxes]
    return {
        "slower": [(title, interval.estimate) for title, interval in ratios if interval.low > 1],
        "faster": [(title, interval.estimate) for title, interval in ratios if interval.high < 1],
        "large": [row for row in worst if row[1] > cfg.small],
    }


def by_preference(cfg: Config, taxes: Sequence[Tax]) -> dict[str, Any] | None:
    """Return the ratios where most default agents prefer the shorter trajectory, and where the longer."""
    groups = {
        name: [tax.ratios[cfg.headline].estimate for tax in taxes if tax.prefers_longer is longer]
        for name, longer in (("shorter", False), ("longer", True))
    }
    if not all(groups.values()):
        return None
    return {
        name: {"range": range_text(ratios), "worlds": len(ratios), "median": float(np.median(ratios))}
        for name, ratios in groups.items()
    }


def range_text(ratios: Sequence[float]) -> str:
    """Return the least and the greatest of some ratios."""
    return f"{min(ratios):.2f} to {max(ratios):.2f}".replace("inf", "∞")


def interval_text(interval: Interval, digits: int = 2) -> str:
    """Return the text of an interval; a dash where there is no ratio, because there was no time to compare."""
    return MISSING if np.isnan(interval.estimate) else interval.text(digits).replace("inf", "∞")
