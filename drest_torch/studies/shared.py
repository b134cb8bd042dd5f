"""What several studies share: the paper's training, worlds, and plots of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, agents_job
from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.statistics.bootstrap import Interval

REWARDS = {"default": "default", "drest": "DReST"}
RANDOM_FIRST = "steps / steps, random play first"
"""The last pair of clocks for agents that play at random for a while before the paper's schedules begin."""

EXAMPLE = Training(
    lam=0.9,
    gamma=0.95,
    episodes_per_meta=64,
    meta_episodes=2048,
    clip=None,
    lr=0.25,
    lr_end=0.01,
    epsilon=0.5,
    epsilon_end=0.001,
    decay_episodes=65536,
    random_episodes=0,
    gradient="softmax",
    discount_bumps=True,
    evaluate_every=8,
)
"""The paper's training on the running example."""
WORLDS = {
    "gamma": 0.9,
    "meta_episodes": 1024,
    "lr_end": 0.003,
    "epsilon": 0.75,
    "epsilon_end": 0.0001,
    "decay_episodes": 32768,
}
"""What is different in its other worlds."""


def title(name: str) -> str:
    return str(world(name).study["title"]).replace("The running example", "Running example")


def tables_job(cfg: Any, label: str, *, clock: str, **changes: Any) -> Job:
    """Return the run of tabular agents, evaluated on every clock that is no slower than the one of training."""
    evaluated_on = ("moves", "steps") if clock == "moves" else ("steps",)
    changes = {"agents": cfg.agents, "evaluated_on": evaluated_on} | changes
    return agents_job(cfg.training, label=label, clock=clock, **changes)


def dots(
    series: Mapping[str, Mapping[str, Interval]],
    *,
    title: str,
    lines: Mapping[float, str],
    alt: str,
    most: float = 16,
    limits: tuple[float, float] | None = None,
    colours: Sequence[str] = (),
) -> Plot:
    """Plot intervals: a row for each name, and in it a dot for each series.

    The axis is logarithmic, from 1 / ``most`` to ``most`` at the widest, or a linear one with these ``limits``.
    ``colours`` are those of the series (see `drest_torch.report.plots.COLOURS`).
    """
    names = list(dict.fromkeys(name for each in series.values() for name in each))
    if not names:
        raise ValueError("a plot of rows needs a row")
    finite = [i for each in series.values() for i in each.values() if np.isfinite(i.estimate)]
    shown = finite if limits else [i for i in finite if i.estimate > 0]
    end = 1.15 * min(max([2.5, *(max(i.high, 1 / max(i.low, 1e-9)) for i in shown)]), most)
    left, right = limits or (1 / end, end)

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for place, line in lines.items():
            dashed = line == "--"
            ax.axvline(
                place,
                color=style.muted if dashed else style.text,
                linewidth=1,
                linestyle=(0, (4, 4)) if dashed else "-",
            )
        for index, (label, each) in enumerate(series.items()):
            colour = COLOURS[colours[index]](style) if colours else style.series[(2, 3, 4, 1, 0, 5)[index % 6]]
            apart = 0.17 * (index - (len(series) - 1) / 2)
            for name, found in each.items():
                if found in shown:
                    y = names.index(name) + apart
                    ax.plot(np.clip((found.low, found.high), left, right), (y, y), color=colour)
                    ax.plot(found.estimate, y, "o", color=colour, markersize=4)
            ax.plot([], [], "o-", color=colour, markersize=4, label=label)
        if limits is None:
            ax.set_xscale("log")
            ticks = [tick for tick in (0.125, 0.25, 0.5, 1, 2, 4, 8) if left < tick < right]
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
        margin = 0.03 * (right - left) if limits else 0
        ax.set_xlim(left - margin, right + margin)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_title(title, loc="right")
        figure.legend(loc="outside lower right", ncols=len(series) if len(series) < 5 else 3)

    return Plot(alt=alt, caption="", draw=draw, size=(5.2, 0.46 * len(names) + 1.3))


GROUPS = ("algo", "objective", "reward", "policy", "levels", "env", "logger")
"""Groups of yaml files, from which the arguments of a run may choose."""


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], Any]:
    """Return what arguments of `python -m drest_torch.train` choose from groups of yaml files, and their values."""
    chosen, values = {}, []
    for argument in arguments:
        key, equals, given = argument.partition("=")
        if not equals:
            raise ConfigError(f"study: the argument '{argument}' of a run; expected key=value")
        if key in GROUPS:
            chosen[key] = given
        else:
            values.append(argument)
    return chosen, OmegaConf.from_dotlist(values)
