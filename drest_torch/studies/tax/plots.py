"""The ratio of the times world by world, and the usefulness of all agents on the running example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.plots import THREE_ABREAST, Curves, training_plot
from drest_torch.report.style import Style
from drest_torch.statistics.times import moving_average
from drest_torch.studies.clock_pairs import REWARDS
from drest_torch.studies.study import Analysis
from drest_torch.studies.tax.analysis import MOVES, PAPERS, Tax, interval_text, on

if TYPE_CHECKING:
    from drest_torch.studies.tax.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return ``ratios, CLOCKS`` and ``usefulness, CLOCKS``."""
    taxes: Sequence[Tax] = analysis.extra
    shown = {
        f"ratios, {clocks}": forest(cfg, clocks, here) for clocks in (PAPERS, MOVES) if (here := on(taxes, clocks))
    }
    return shown | {
        f"usefulness, {tax.case.clocks}": usefulness(cfg, tax) for tax in taxes if tax.case.world == cfg.world
    }


def forest(cfg: Config, clocks: str, taxes: Sequence[Tax]) -> Plot:
    """Plot the ratio of each world and share with its interval."""
    shares = list(cfg.shares)
    shown = [r for tax in taxes for r in tax.ratios.values() if np.isfinite(r.estimate) and r.estimate > 0]
    most = 1.15 * min(max([2.5, *(max(ratio.high, 1 / max(ratio.low, 1e-9)) for ratio in shown)]), 16)

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        ax.axvline(1, color=style.text, linewidth=1)
        ax.axvline(cfg.small, color=style.muted, linewidth=1, linestyle=(0, (4, 4)))
        for index, share in enumerate(shares):
            colour = style.series[(2, 3, 4, 1, 0, 5)[index % 6]]
            apart = 0.17 * (index - (len(shares) - 1) / 2)
            for place, tax in enumerate(taxes):
                ratio = tax.ratios[share]
                if ratio in shown:
                    ax.plot(np.clip((ratio.low, ratio.high), 1 / most, most), (place + apart,) * 2, color=colour)
                    ax.plot(ratio.estimate, place + apart, "o", color=colour, markersize=4)
            ax.plot([], [], "o-", color=colour, markersize=4, label=f"{share:.0%}")
        ax.set_xscale("log")
        ticks = [tick for tick in (0.125, 0.25, 0.5, 1, 2, 4, 8) if 1 / most < tick < most]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlim(1 / most, most)
        ax.set_yticks(range(len(taxes)), [tax.case.title for tax in taxes])
        ax.set_ylim(len(taxes) - 0.5, -0.5)
        ax.set_title(f"mini-episodes, DReST ÷ default, {clocks}", loc="right")
        figure.legend(loc="outside lower right", ncols=len(shares))

    ends = "; ".join(f"{tax.case.title} {interval_text(tax.ratios[cfg.headline])}" for tax in taxes)
    return Plot(
        alt=f"Ratio of the mini-episodes that DReST and default agents take, {clocks}, on a logarithmic axis, a row "
        f"for each world. At {cfg.headline:.0%} of the final usefulness: {ends}.",
        caption="",
        draw=draw,
        size=(5.2, 0.46 * len(taxes) + 1.3),
    )


def usefulness(cfg: Config, tax: Tax) -> Plot:
    """Plot the usefulness of both groups over training."""
    groups, ends = [], []
    shown = tax.default.episodes > 0 if tax.case.random_episodes else tax.default.episodes >= 0
    for reward, words in REWARDS.items():
        agents = tax.agents(reward)
        groups.append(Curves(words, reward, moving_average(agents.usefulness, cfg.window)[shown]))
        time = interval_text(tax.time(reward, cfg.headline), 1)
        ends.append(f"the median {words} agent reaches {cfg.headline:.0%} after {time} thousand")
    return training_plot(
        tax.default.episodes[shown] / 1000,
        groups,
        title=f"usefulness, {tax.case.clocks}",
        xlabel="thousands of mini-episodes",
        alt=f"Usefulness over training on the running example, {tax.case.clocks}: {', '.join(ends)} mini-episodes.",
        reference=1.0,
        size=THREE_ABREAST,
    )
