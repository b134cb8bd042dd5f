"""The two rewards on pairs of clocks: what the studies of single worlds have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drest_torch.evaluation.tabular import Tables
from drest_torch.jobs.store import Result
from drest_torch.jobs.tabular_job import last, p_longest
from drest_torch.report.blocks import Gallery, Plot
from drest_torch.report.plots import THREE_ABREAST, Curves, policy_plot, training_plot
from drest_torch.report.tables import spread
from drest_torch.statistics.bootstrap import bootstrap
from envs.levels import world

REWARDS = {"default": "default", "drest": "DReST"}
CLOCKS = {("moves", "steps"): "moves / steps", ("moves", "moves"): "moves / moves", ("steps", "steps"): "steps / steps"}
"""(clock of training, clock of evaluation)"""
MARK = 0.99


def summary(result: Result, clock: str) -> dict[str, Any]:
    """The end of training in numbers."""
    usefulness, neutrality = last(result, clock, "usefulness"), last(result, clock, "neutrality")
    return {
        "usefulness": [usefulness.mean(), spread(usefulness)],
        "neutrality": [neutrality.mean(), spread(neutrality)],
        "p_longer": last(result, clock, "p_length")[:, -1].mean(),
        "both": both(result, clock).mean(),
        "agents": len(usefulness),
    }


def both(result: Result, clock: str) -> np.ndarray:
    """[A] whether usefulness and neutrality are both at least 0.99."""
    return (last(result, clock, "usefulness") >= MARK) & (last(result, clock, "neutrality") >= MARK)


@dataclass(frozen=True)
class Shown:
    """Default and DReST agents, trained on one clock, as they are drawn."""

    results: Mapping[str, Result]
    """By reward."""
    clock: str
    """Of evaluation."""
    name: str
    episodes_per_meta: int
    window: int
    """Evaluations in the moving average."""

    def gallery(self) -> Gallery:
        """The three plots of the paper's Figure 3."""
        titles = {"p_longer": "P(longer)", "neutrality": "neutrality", "usefulness": "usefulness"}
        return Gallery([self.curve(measure, title) for measure, title in titles.items()])

    def curve(self, measure: str, title: str) -> Plot:
        groups, ends = [], []
        episodes = np.zeros(0)
        for reward, result in self.results.items():
            if measure == "p_longer":
                values = p_longest(result, self.clock)
            else:
                values = result.arrays[f"{self.clock}/{measure}"].astype(float)
            episodes = result.arrays["episodes"] / self.episodes_per_meta
            groups.append(Curves(REWARDS[reward], reward, values))
            ends.append(f"{REWARDS[reward]} ends at {values[-1].mean():.2f}")
        return training_plot(
            episodes,
            groups,
            title=f"{title}, {self.name}",
            xlabel="meta-episodes",
            alt=f"{title} over training, {self.name}: {'; '.join(ends)}.",
            window=self.window,
            reference=0.5 if measure == "p_longer" else 1.0,
            size=THREE_ABREAST,
        )


INTERVALS = "In brackets the 95 % bootstrap interval of the mean over agents."


def end_cells(result: Result, clock: str) -> list[str]:
    """Neutrality and usefulness with the means' `INTERVALS`, P(longer), and how many agents have both marks."""
    numbers = summary(result, clock)
    return [
        bootstrap(last(result, clock, "neutrality")).text(),
        bootstrap(last(result, clock, "usefulness")).text(),
        f"{numbers['p_longer']:.3f}",
        f"{round(numbers['both'] * numbers['agents'])} of {numbers['agents']}",
    ]


def typical_policy(name: str, gamma: float, result: Result, reward: str, clock: str = "moves") -> Plot:
    """The agent whose P(longer) is the median of those that are kept."""
    tables = Tables(world(name).with_clock(clock), gamma, 1)
    kept = len(result.arrays["logits"])
    chosen = last(result, clock, "p_length")[:kept, -1]
    middle = int(np.argsort(chosen)[kept // 2])
    logits = result.arrays["logits"][middle : middle + 1]
    found = tables.evaluate(logits)
    lengths: Sequence[int] = result.numbers["lengths"]
    does = ", ".join(f"length {l} with probability {p:.2f}" for l, p in zip(lengths, found["p_length"][0], strict=True))
    return policy_plot(
        tables,
        logits,
        title=REWARDS[reward],
        alt=f"A typical {REWARDS[reward]} policy on {name} as arrows: it chooses {does}.",
        caption=f"{REWARDS[reward]}: usefulness {found['usefulness'][0]:.2f}, neutrality {found['neutrality'][0]:.2f}",
    )
