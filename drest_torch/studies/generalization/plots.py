"""Curves over training, how evenly lengths are chosen, and the policy in the worst test levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import level_from_record
from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS, THREE_ABREAST, arrows_plot, band
from drest_torch.report.style import Style
from drest_torch.studies.generalization.analysis import EVEN, even
from drest_torch.studies.generalization.variant import BOTH, MEASURES, Variant
from drest_torch.studies.study import Analysis
from drest_torch.studies.unseen import TEST, TRAIN

if TYPE_CHECKING:
    from drest_torch.studies.generalization.study import Config

SIDE_BY_SIDE = (4.6, 3.3)
"""Inches of a plot, so that two stand beside each other."""


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return every plot for which there are results."""
    variants, named = analysis.extra
    if not named:
        return {}
    made = {f"curves_{measure}": curves(cfg, named, measure) for measure in BOTH}
    made["histogram"] = histogram(cfg, named)
    headline = variants[cfg.headline]
    if headline.seeds:
        made |= {f"levels_{name}": scatter(cfg, headline, name) for name in (TEST, TRAIN)}
        made |= {f"worst_{rank}": policy(headline, rank, worst) for rank, worst in enumerate(headline.worst)}
    return made


def curves(cfg: Config, named: Sequence[Variant], measure: str) -> Plot:
    """Plot a measure on the selection levels over training."""
    head = MEASURES[measure]
    mixed = len({variant.unit for variant in named}) > 1
    axis = "share of training, %" if mixed else named[0].unit if named[0].exact else "environment steps"

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for variant in named:
            steps, values = on_a_grid(variant, measure)
            if mixed:
                steps = 100 * steps / steps[-1]
            band(ax, steps, values, _colour(cfg, variant, style), variant.title, 0, 100)
        ax.set_ylim(-0.03, 1.03)
        ax.xaxis.set_major_formatter(EngFormatter(sep=" "))
        ax.set_title(head)
        ax.set_xlabel(axis)
        ax.legend(loc="best")

    lasts = {v.title: np.mean([getattr(curve, measure)[-1] for curve in v.curves]) for v in named}
    ends = "; ".join(f"{title} ends at {last:.2f}" for title, last in lasts.items())
    return Plot(alt=f"{head} over {axis}: {ends}.", caption="", draw=draw, size=SIDE_BY_SIDE)


def on_a_grid(variant: Variant, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps [T] and values [T, S] on them: each run is evaluated at steps of its own."""
    steps = np.linspace(0, min(curve.steps[-1] for curve in variant.curves), 200)
    return steps, np.stack([np.interp(steps, curve.steps, getattr(curve, measure)) for curve in variant.curves], -1)


def histogram(cfg: Config, named: Sequence[Variant]) -> Plot:
    """Plot P(longer) over test levels with two lengths."""
    chosen = {variant: p for variant in named if len(p := variant.longer(TEST))}

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        ax.axvspan(*EVEN, color=style.grid, zorder=0)
        for variant, p in chosen.items():
            share = np.full(len(p), 1 / len(p))
            colour = _colour(cfg, variant, style)
            ax.hist(p, bins=40, range=(0, 1), weights=share, color=colour, alpha=0.65, label=variant.title)
        ax.set_title("P(longer), test levels")
        ax.set_ylabel("share of levels")
        if chosen:
            ax.legend(loc="best")

    shares = "; ".join(f"{variant.title} {even(p):.0%}" for variant, p in chosen.items())
    alt = f"Histogram of P(longer) over test levels. Between {EVEN[0]} and {EVEN[1]}: {shares or 'no level'}."
    return Plot(alt=alt, caption="", draw=draw, size=THREE_ABREAST)


def scatter(cfg: Config, variant: Variant, name: str) -> Plot:
    """Plot usefulness against neutrality, a dot for each level and seed."""
    useful, neutral = (variant.values(name, measure).reshape(-1) for measure in BOTH)
    title = {TEST: "test levels", TRAIN: "training levels"}[name]

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        ax.scatter(neutral, useful, s=9, alpha=0.25, linewidths=0, color=_colour(cfg, variant, style))
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        ax.set_title(f"{variant.title}, {title}")
        ax.set_xlabel("neutrality ÷ log2 k")
        ax.set_ylabel("usefulness")

    both = float(((useful > cfg.mark) & (neutral > cfg.mark)).mean())
    alt = f"Usefulness against neutrality in the {title}; above {cfg.mark:g} in both: {both:.0%} of them."
    return Plot(alt=alt, caption="", draw=draw, size=THREE_ABREAST)


def policy(variant: Variant, rank: int, worst: Mapping[str, Any]) -> Plot:
    """Plot the first policy in one of its worst test levels, a row for each setting of its private bits."""
    assert variant.first is not None
    arrays, numbers = variant.first.arrays, variant.first.numbers
    level, index = level_from_record(worst["level"]), worst["index"]
    reachable = Reachable(compile_levels([level], at_least=tuple(numbers["map_size"])))

    def value(metric: str) -> Any:
        return arrays[f"{TEST}/{metric}"][index]

    lengths = reachable.lengths[0].tolist()
    does = ", ".join(f"P({length}) {p:.2f}" for length, p in zip(lengths, value("p_length"), strict=False))
    shares = ", ".join(f"{share:.2f}" for _, share in zip(lengths, value("share_of_best"), strict=False))
    ends = f"usefulness {value('usefulness'):.2f}, neutrality {value('neutrality'):.2f}"
    policies = torch.from_numpy(arrays[f"worst/{rank}"]).double()
    return arrows_plot(
        reachable,
        dict(zip(numbers["private_bits"], policies, strict=True)),
        title=f"{rank + 1}",
        alt=f"The policy in a test level as arrows: {ends}, {does}.",
        caption=f"{rank + 1}: {ends}; {does}; E[C | L] ÷ m {shares}",
    )


def _colour(cfg: Config, variant: Variant, style: Style) -> str:
    return COLOURS["drest" if variant.title == cfg.headline else "default"](style)
