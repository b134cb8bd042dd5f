"""The return against the choice, the neutrality of the best choice against E, and the levels with many lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import torch
from matplotlib.figure import Figure

from drest_torch.envs.levels import parse_level
from drest_torch.envs.view.rendering import render as draw_level
from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.report.tables import select
from drest_torch.studies.study import Analysis
from drest_torch.studies.theorem.analysis import Setting, best_climbs
from drest_torch.theory import best_choice, choice_value, margin, neutral_value

if TYPE_CHECKING:
    from drest_torch.studies.theorem.study import Config

COLOURS = (2, 3, 4, 5, 0, 1)
"""Of a theme's series, in the order of the lines in a plot."""
SIZE = (4.8, 3.6)


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the plots by name; ``levels`` is there where the study has levels of its own."""
    meta, limits = analysis.extra
    neutrality = {f"neutrality_{k}": neutrality_plot(cfg, analysis, k, row) for k, row in limits.items()}
    return {"return": return_plot(cfg, meta), **neutrality} | ({"levels": levels_plot(cfg)} if cfg.levels else {})


def return_plot(cfg: Config, meta: pd.DataFrame) -> Plot:
    """Plot the expected return against P(longer) for several E, with its maxima and what was climbed to."""
    lam = float(cfg.curve_lam)
    p = torch.linspace(0, 1, 401, dtype=torch.float64)
    curves = []
    for setting in (Setting(lam, int(episodes), 2) for episodes in cfg.curve_episodes):
        values = choice_value(torch.stack((1 - p, p), -1), *setting.key[1:]) / neutral_value(*setting.key)
        least, _ = best_choice(*setting.key)
        climbed = [(row.p_length[-1], row.ratio) for row in best_climbs(meta, setting).itertuples()]
        curves.append((setting.episodes_per_meta, values, least, 1 + margin(*setting.key), climbed))

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        label: str | None = "climbed to"
        for (episodes, values, least, most, climbed), number in zip(curves, COLOURS * 9, strict=False):
            colour = style.series[number]
            ax.plot(p, values, color=colour, label=f"E = {episodes}")
            ax.plot((least, 1 - least), (most, most), "o", color=colour, markersize=6)
            for place, height in climbed:
                ax.plot(place, height, "x", color=style.text, markersize=7, markeredgewidth=1.2, label=label)
                label = None
        ax.set_ylim(0.5, max(1.2, 1.05 * max(most for *_, most, _ in curves)))
        ax.set_xlabel("P(the longer length)")
        ax.set_title(f"return ÷ a neutral policy's, λ = {lam:g}, k = 2")
        ax.legend(loc="lower center", ncols=2)

    maxima = "; ".join(
        f"E = {episodes} at {least:.2f}" + ("" if least > 0.4999 else f" and {1 - least:.2f}")
        for episodes, _, least, *_ in curves
    )
    alt = f"Expected return against the probability of the longer of two lengths, λ = {lam:g}. Its maxima: {maxima}."
    return Plot(alt, "Dots: the best choice. Crosses: what was climbed to in the levels with two lengths.", draw, SIZE)


def neutrality_plot(cfg: Config, analysis: Analysis, k: int, limits: dict[float, int]) -> Plot:
    """Plot the neutrality of the best choice among k lengths against E, with a line for each λ."""
    results = select(analysis.results, variant="optimum over E", num_lengths=k)
    lines = {lam: select(results, lam=lam)[["episodes_per_meta", "value"]].to_numpy().T for lam in limits}
    most, paper = int(cfg.most_episodes), analysis.findings["papers"] if k == 2 else None

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for (lam, (episodes, values)), number in zip(lines.items(), COLOURS * 9, strict=False):
            ax.plot(episodes, values, color=style.series[number], label=f"λ = {lam:g}")
            if limits[lam] <= most:
                ax.plot(limits[lam], 1, "o", color=style.series[number], markersize=6)
        if paper:
            place = paper["episodes_per_meta"], paper["neutrality"]
            ax.plot(*place, "*", color=style.text, markersize=11, label="the paper's")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("E, mini-episodes of a meta-episode")
        ax.set_title(f"neutrality ÷ log2 k of the best choice, k = {k}")
        ax.legend(loc="lower left")

    until = ", ".join(f"{limits[lam]} for λ = {lam:g}" for lam in lines)
    ends = ", ".join(f"{values[-1]:.2f}" for _, values in lines.values())
    alt = f"Neutrality of the best choice among {k} lengths against E: 1 up to an E of {until}. At E = {most}: {ends}."
    caption = f"Dots: the largest E for which the best choice is neutral, k = {k}."
    return Plot(alt, caption + (" Star: the paper's λ and E." if paper else ""), draw, SIZE)


def levels_plot(cfg: Config) -> Plot:
    """Plot the maps of the levels that are not the paper's."""
    levels = {name.replace("_", " "): parse_level(text, name=name) for name, text in cfg.levels.items()}

    def draw(figure: Figure, style: Style) -> None:
        for index, (title, level) in enumerate(levels.items()):
            ax = figure.add_subplot(1, len(levels), 1 + index)
            draw_level(level, ax)
            ax.grid(False)
            ax.set_title(title, fontsize=10, loc="left")

    maps = "; ".join(
        f"{title}: shutdown {level.shutdown}, {' / '.join(level.rows())}" for title, level in levels.items()
    )
    caption = "The levels with more than two lengths; their text stands in `configs/study/theorem.yaml`."
    alt = f"The maps of the levels that are not the paper's, row by row. {maps}."
    return Plot(alt, caption, draw, (2.4 * len(levels), 2.6))
