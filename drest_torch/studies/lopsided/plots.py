"""P(longer) and neutrality against x: default and DReST agents as in the paper, and several λ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS, band
from drest_torch.report.style import Style
from drest_torch.studies.lopsided.analysis import MARK, PREDICTED, REPORTED, Curves, best, predicted
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.lopsided.study import Config

FINE = 161
"""Values of x in a predicted curve."""
LINES = ("drest", "green", "pink", "violet", "brown")
TITLES = {"p_longer": "P(longer)", "neutrality": "neutrality (bits)"}
SIZE = (4.8, 3.8)
DASHES = (0, (4, 4))
JUMP = 0.2
"""Neighbours on a fine curve that are further apart have a jump between them."""


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return for each pair of clocks ``rewards …`` (the paper's λ and the default), ``free …`` and ``clipped …``."""
    shown: dict[str, Plot] = {}
    all_curves: list[Curves] = analysis.extra
    for pair in dict.fromkeys(curves.pair for curves in all_curves):
        of_pair = [curves for curves in all_curves if curves.pair == pair]
        main = of_pair[0].kind.clock == of_pair[0].clock == cfg.clocks[0]
        groups = {
            "rewards": [c for c in of_pair if c.kind.default or (c.kind.lam == cfg.lams[0] and c.kind.clip is None)],
            "free": [c for c in of_pair if not c.kind.default and c.kind.clip is None] if main else [],
            "clipped": [c for c in of_pair if c.kind.clip is not None],
        }
        for metric in PREDICTED:
            if groups["rewards"]:
                shown[f"rewards {pair} {metric}"] = figure_6(cfg, metric, groups["rewards"], whole=main)
            for name in ("free", "clipped"):
                if groups[name]:
                    shown[f"{name} {pair} {metric}"] = several_lams(cfg, metric, groups[name])
    return shown


def figure_6(cfg: Config, metric: str, shown: Sequence[Curves], whole: bool) -> Plot:
    """Plot default and DReST agents as in the paper, and what is predicted for the latter."""
    x, index = np.geomspace(cfg.x_first, cfg.x_last, FINE), PREDICTED.index(metric)
    lam, episodes = cfg.lams[0], cfg.training.episodes_per_meta

    def draw(figure: Figure, style: Style) -> None:
        ax = _axes(cfg, figure, style, metric)
        ax.set_title(TITLES[metric])
        if whole:
            optimum = best(x, lam, episodes)[index]
            optimum = np.where(np.abs(np.diff(optimum, append=optimum[-1])) > JUMP, np.nan, optimum)
            ax.plot(x, optimum, color=style.muted, linestyle=":", label="best for the whole meta-episode")
        for curves in shown:
            colour = COLOURS["default" if curves.kind.default else "drest"](style)
            for agent in curves.agents(metric).T:
                ax.plot(curves.x, agent, ".", color=colour, markersize=2.5, alpha=0.5)
            band(ax, curves.x, curves.agents(metric), colour, _name(curves))
        curve = predicted(x, lam, episodes, None)[index]
        ax.plot(x, curve, color=style.text, linewidth=1.1, linestyle="--", label="DReST, predicted")
        figure.legend(loc="outside lower center", ncols=4 - 2 * whole)

    seen = []
    for curves in shown:
        nearest = {f"{x:g}": np.abs(curves.x - x).argmin() for x in (0.1, 1, 10)}
        words = ", ".join(f"{curves.agents(metric)[i].mean():.2f} at x = {at}" for at, i in nearest.items())
        seen.append(f"{_name(curves)} agents {words}")
    alt = f"{TITLES[metric]} against x on a logarithmic axis: {'; '.join(seen)}."
    for curves in shown:
        if not curves.kind.default:
            alt += f" The DReST agents are {curves.apart(metric).mean():.2f} from the predicted curve on average."
    return Plot(alt=alt, caption="", draw=draw, size=SIZE)


def several_lams(cfg: Config, metric: str, shown: Sequence[Curves]) -> Plot:
    """Plot several λ: what agents do and, dashed, what is predicted."""
    x, index = np.geomspace(cfg.x_first, cfg.x_last, FINE), PREDICTED.index(metric)
    clip = shown[0].kind.clip
    title = f"{TITLES[metric]}, {'any reward' if clip is None else f'rewards of at most {clip:g}'}"

    def draw(figure: Figure, style: Style) -> None:
        ax = _axes(cfg, figure, style, metric)
        ax.set_title(title)
        for curves in shown:
            kind = curves.kind
            colour = COLOURS[LINES[list(cfg.lams).index(kind.lam) % len(LINES)]](style)
            curve = predicted(x, kind.lam, curves.episodes, kind.clip)[index]
            ax.plot(x, curve, color=colour, linewidth=1.1, linestyle="--")
            label, values = f"λ = {kind.lam:g}", curves.agents(metric)
            if curves.unstable():  # a band would fill the whole plot
                ax.plot(curves.x, values.mean(1), color=colour, linewidth=1, marker="o", label=label)
            else:
                band(ax, curves.x, values, colour, label)
        ax.plot([], [], color=style.muted, linewidth=1.1, linestyle="--", label="predicted")
        figure.legend(loc="outside lower center", ncols=len(shown) + 1, columnspacing=1.2, handlelength=1.4)

    seen = "; ".join(
        f"λ = {curves.kind.lam:g} from {_ends(curves.agents(metric).mean(1))}, "
        f"predicted {_ends(curves.predicted(metric))}"
        for curves in shown
    )
    return Plot(alt=f"{title}, against x; means of the agents: {seen}.", caption="", draw=draw, size=SIZE)


def _axes(cfg: Config, figure: Figure, style: Style, metric: str) -> Axes:
    ax = figure.add_subplot()
    ax.set_xscale("log")
    ax.set_xlim(cfg.x_first * 0.8, cfg.x_last / 0.8)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("x, the longer length's coin (the shorter's is 1)")
    if metric == "neutrality":
        ax.axhline(MARK, color=style.muted, linewidth=0.8, linestyle=DASHES, zorder=1)
    for x in REPORTED:
        ax.axvline(x, color=style.muted, linewidth=0.8, linestyle=DASHES, zorder=1)
    return ax


def _name(curves: Curves) -> str:
    return "default" if curves.kind.default else "DReST"


def _ends(values: np.ndarray) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
