"""All worlds side by side; training curves and typical policies of each, on the paper's pair of clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from drest_torch.envs.levels import world
from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.report.tables import select
from drest_torch.studies.clock_pairs import MARK, REWARDS, curve_plot, typical_policy
from drest_torch.studies.study import Analysis
from drest_torch.studies.worlds.study import AS_REPORTED, MOVES

if TYPE_CHECKING:
    from drest_torch.studies.worlds.study import Config

METRICS = ("neutrality", "usefulness")


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return ``all``, and for each world with results ``WORLD/METRIC`` and ``WORLD/REWARD``."""
    shown = {} if select(analysis.results, clocks=MOVES).empty else {"all": all_worlds(analysis)}
    for name, results in analysis.extra.items():
        if results:
            for metric in METRICS:
                shown[f"{name}/{metric}"] = curve_plot(cfg, results, "steps", AS_REPORTED, metric)
        for reward, result in results.items():
            shown[f"{name}/{reward}"] = typical_policy(name, cfg.training.gamma, result, reward)
    return shown


def all_worlds(analysis: Analysis) -> Plot:
    """Plot mean usefulness and neutrality on the clock that counts moves, a row for each world."""
    ends = select(analysis.results, clocks=MOVES)
    means = ends.groupby(["metric", "reward", "level"], sort=False)["value"].mean()
    worlds = list(ends["level"].unique())

    def draw(figure: Figure, style: Style) -> None:
        axes = figure.subplots(1, 2, sharey=True)
        for ax, metric in zip(axes, reversed(METRICS), strict=True):
            for reward, words in REWARDS.items():
                rows = {row: means.get((metric, reward, name)) for row, name in enumerate(worlds)}
                rows = {row: mean for row, mean in rows.items() if mean is not None}
                ax.plot(list(rows.values()), list(rows), "o", color=COLOURS[reward](style), label=words)
            ax.axvline(MARK, color=style.muted, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
            ax.set(title=metric, xlim=(-0.03, 1.03), xticks=(0, 0.5, 1))
            ax.xaxis.set_major_formatter("{x:g}")
        axes[0].set_yticks(range(len(worlds)), [world(name).study["title"] for name in worlds])
        axes[0].set_ylim(len(worlds) - 0.5, -0.5)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower right", ncols=2)

    lows = []
    for metric in METRICS:
        of_drest = means[metric].get("drest")
        lows += [] if of_drest is None else [f"{metric} {of_drest.min():.2f}"]
    alt = f"Mean usefulness and neutrality in each world, {MOVES}."
    alt += f" The lowest of DReST agents: {' and '.join(lows)}." if lows else ""
    return Plot(alt=alt, caption="", draw=draw, size=(4.8, 1.2 + 0.34 * len(worlds)))
