"""All agents by world, the training curves of one world, and typical policies in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.evaluation.tabular import Tables
from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS, THREE_ABREAST, arrows_plot
from drest_torch.report.style import Style
from drest_torch.report.tables import select, values
from drest_torch.studies.clock_pairs import REWARDS
from drest_torch.studies.neural.analysis import MEASURES, TABLE, Agents, Kind, level
from drest_torch.studies.neural.study import gamma_of
from drest_torch.studies.neural.tables import kinds, short_title, title
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.neural.study import Config

LOOKS = {TABLE: ("text", "s"), "reinforce": ("green", "o"), "a2c": ("pink", "^"), "ppo": ("violet", "D")}
"""Colour and marker of each kind of agent, in all plots."""
OTHER = ("brown", "v")
CURVES = {"usefulness": "usefulness", "neutrality": "neutrality", "p_longer": "P(longer)"}
GRID = 200
"""Points of a mean curve: every network is evaluated after steps of its own."""


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return what there is to show: all agents, and DReST in one world."""
    agents: Mapping[Kind, Agents] = analysis.extra
    if not agents:
        return {}
    shown = {algo: agents[kind] for algo in kinds(cfg) if (kind := Kind(cfg.shown, algo, "drest")) in agents}
    curves = {measure: training_curves(shown, measure) for measure in CURVES} if shown else {}
    policies = {f"policy_{algo}": typical_policy(cfg, algo, group) for algo, group in shown.items()}
    return {"all": all_agents(cfg, analysis), **curves, **policies}


def all_agents(cfg: Config, analysis: Analysis) -> Plot:
    """Plot usefulness and neutrality, a row for each world, in it a line of dots for each algorithm."""
    results = select(analysis.results, change="")
    present = [algo for algo in kinds(cfg) if algo in set(results["algorithm"])]

    def draw(figure: Figure, style: Style) -> None:
        axes = figure.subplots(1, 2, sharey=True)
        for ax, measure in zip(axes, MEASURES, strict=True):
            of_measure = select(results, metric=measure)
            for row, name in enumerate(cfg.worlds):
                for place, algo in enumerate(present):
                    y = row + (place - (len(present) - 1) / 2) * 0.19
                    for reward in REWARDS:
                        ends = values(of_measure, level=name, algorithm=algo, reward=reward)
                        if algo == TABLE and len(ends):
                            ends = np.median(ends, keepdims=True)
                        ax.plot(ends, np.full(len(ends), y), alpha=0.85, zorder=3, **_marker(style, algo, reward))
            ax.set_title(measure)
            ax.set_xlim(-0.03, 1.03)
            ax.axvline(cfg.mark, color=style.muted, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
            ax.grid(False, axis="y")
            for between in range(1, len(cfg.worlds)):
                ax.axhline(between - 0.5, color=style.grid, linewidth=0.8, zorder=0)
        axes[0].set_yticks(range(len(cfg.worlds)), [title(name) for name in cfg.worlds])
        axes[0].set_ylim(len(cfg.worlds) - 0.5, -0.5)
        handles = [axes[0].plot([], [], label=short_title(a), **_marker(style, a, "drest"))[0] for a in present]
        handles.append(axes[0].plot([], [], label="default reward", **_marker(style, TABLE, "default"))[0])
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))

    lows = []
    for algo in present:
        group = select(results, algorithm=algo, reward="drest")
        if len(group):
            lowest = (values(group, metric=measure).min() for measure in MEASURES)
            lows.append(f"{short_title(algo)} {' and '.join(f'{value:.2f}' for value in lowest)}")
    alt = "Usefulness and neutrality of every network, by world and algorithm."
    alt += f" The lowest of the DReST agents: {'; '.join(lows)}." if lows else ""
    return Plot(alt=alt, caption="", draw=draw, size=(10.0, 1.1 + 0.55 * len(cfg.worlds)))


def _marker(style: Style, algo: str, reward: str) -> dict[str, Any]:
    """Return how agents look: filled with DReST, hollow with the default reward."""
    name, shape = LOOKS.get(algo, OTHER)
    colour = COLOURS[name](style)
    face = colour if reward == "drest" else "none"
    return {"color": colour, "marker": shape, "markerfacecolor": face, "linestyle": "none", "markersize": 5.5}


def training_curves(shown: Mapping[str, Agents], measure: str) -> Plot:
    """Plot a measure against environment steps: the mean, each network, and a shade for tabular agents."""

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for algo, agents in shown.items():
            colour = COLOURS[LOOKS.get(algo, OTHER)[0]](style)
            steps, curves = on_a_grid(agents, measure)
            if algo == TABLE:
                ax.fill_between(steps, *np.percentile(curves, (10, 90), axis=0), color=colour, alpha=0.15, linewidth=0)
            else:
                for history in agents.histories:
                    ax.plot(history.steps, getattr(history, measure), color=colour, linewidth=0.7, alpha=0.4)
            ax.plot(steps, curves.mean(0), color=colour, label=short_title(algo))
        ax.set_ylim(-0.03, 1.03)
        ax.xaxis.set_major_formatter(EngFormatter(sep=" "))
        ax.set_title(CURVES[measure])
        ax.set_xlabel("environment steps")
        ax.legend(loc="best")

    ends = "; ".join(
        f"{short_title(algo)} ends at {on_a_grid(agents, measure)[1][:, -1].mean():.2f}"
        for algo, agents in shown.items()
    )
    return Plot(alt=f"{CURVES[measure]} over environment steps: {ends}.", caption="", draw=draw, size=THREE_ABREAST)


def on_a_grid(agents: Agents, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps [T] and the values of every agent at them [A, T]."""
    steps = np.linspace(0, max(history.steps[-1] for history in agents.histories), GRID)
    curves = [
        np.interp(steps, history.steps, curve) for history in agents.histories for curve in getattr(history, measure).T
    ]
    return steps, np.stack(curves)


def typical_policy(cfg: Config, algo: str, agents: Agents) -> Plot:
    """Plot the policy of the agent whose P(longer) is the median, as arrows."""
    agent = agents.typical()
    board = level(cfg.shown)
    if algo == TABLE:
        tables = Tables(board, gamma_of(cfg, cfg.shown), 1)
        reachable = tables.reachable
        probabilities = tables.probabilities(agents.results[0].arrays["logits"][agent : agent + 1])
    else:
        reachable = Reachable(compile_levels([board]))
        probabilities = torch.from_numpy(agents.results[agent].arrays["train/policy"]).double()
    choices = ", ".join(
        f"length {l} with probability {p:.2f}" for l, p in zip(agents.lengths, agents.p_length[agent], strict=True)
    )
    name = short_title(algo)
    return arrows_plot(
        reachable,
        {"": probabilities},
        title=name,
        alt=f"A typical DReST policy, {name}, on {cfg.shown} as arrows: it chooses {choices}.",
        caption=f"{name}: usefulness {agents.usefulness[agent]:.2f}, neutrality {agents.neutrality[agent]:.2f}",
    )
