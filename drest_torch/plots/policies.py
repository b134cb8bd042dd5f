"""Plot policies on levels, in the style of the paper's Figure 4."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import Level
from drest_torch.envs.view.rendering import Panel, render
from drest_torch.plots.style import TEXT, write_figure

RARELY = 0.01
"""Cells in which the agent takes fewer actions per mini-episode than this, on average, are left empty."""


@dataclass(frozen=True)
class LevelNumbers:
    """The numbers in the caption of a level's picture."""

    usefulness: float
    neutrality: float
    length_probabilities: Mapping[int, float]
    """P(L = l) for each length l."""
    sampled: bool = False
    """Whether the numbers are estimates."""


def policy_pictures(
    reachable: Reachable,
    policies: Mapping[str, Tensor],
    indices: Sequence[int],
    folder: Path,
    *,
    numbers: Sequence[LevelNumbers],
) -> list[Path]:
    """Write one PNG per level with its policies (see `PolicyDrawings`); return the files.

    ``indices`` select levels of the level set, and ``numbers`` has an entry for each level of the set.
    """
    drawings = PolicyDrawings(reachable, policies)
    levels = [reachable.mdp.levels[index] for index in indices]
    paths = [folder / name for name in _file_names(levels)]
    for index, level, path in zip(indices, levels, paths, strict=True):
        write_figure(_policy_figure(level, drawings.rows(index), _caption(numbers[index])), path)
    return paths


@dataclass(frozen=True)
class PolicyRow:
    """Panels side by side, with a title."""

    title: str
    panels: list[Panel]


class PolicyDrawings:
    """Plots of policies on levels: a row of panels for each policy, under its title and P(L = l).

    ``policies`` are action probabilities [N, 4] in reachable states, by title. A single policy needs no title.
    """

    def __init__(self, reachable: Reachable, policies: Mapping[str, Tensor]) -> None:
        self.reachable = reachable
        self._policies = [
            (title, table, reachable.visits(table), reachable.propagate(table).probability)
            for title, table in policies.items()
        ]

    def rows(self, level_index: int) -> list[PolicyRow]:
        """Return the rows of one level."""
        level = self.reachable.mdp.levels[level_index]
        count = int(self.reachable.num_lengths[level_index])
        lengths = self.reachable.lengths[level_index, :count].tolist()
        rows = []
        for title, policy, visits, probability in self._policies:
            lengths_text = _length_probabilities(
                dict(zip(lengths, probability[level_index, :count].tolist(), strict=True))
            )
            panels = policy_panels(level, self.reachable, policy, visits, level_index)
            rows.append(PolicyRow(title and f"{title}:   {lengths_text}", panels))
        return rows


def policy_arrows(
    reachable: Reachable, probabilities: Tensor, visits: Tensor, level_index: int, *, pressed: bool
) -> np.ndarray:
    """Return [H, W, 4] the probability of each action in each cell of a level, before or after the first button.

    A policy may observe the time and the remaining coins. The probability in a cell is therefore the mean over its
    states, weighted by how often the agent acts in them. It is NaN in cells where the agent rarely acts.
    """
    mdp, states = reachable.mdp, reachable.states
    level = mdp.levels[level_index]
    button_is_gone = (states.taken >> len(level.coins)) != 0
    selected = (mdp.level_of(states.spot) == level_index) & (button_is_gone == pressed)
    cell = states.spot[selected] - level_index * mdp.num_cells
    weight = visits.detach()[selected].double()
    weighted = weight.unsqueeze(-1) * probabilities.detach()[selected]
    cell_weight = weight.new_zeros(mdp.num_cells).index_add(0, cell, weight)
    total = weight.new_zeros(mdp.num_cells, NUM_ACTIONS).index_add(0, cell, weighted)
    arrows = torch.where(cell_weight < RARELY, math.nan, cell_weight).reciprocal().unsqueeze(-1) * total
    return arrows.reshape(mdp.height, mdp.width, NUM_ACTIONS)[: level.height, : level.width].cpu().numpy()


def policy_panels(
    level: Level, reachable: Reachable, probabilities: Tensor, visits: Tensor, level_index: int
) -> list[Panel]:
    """Return panels of the policy before the first button is pressed and after it.

    A single button is left out once it is pressed. With several buttons all are shown: the panel combines states with
    different pressed buttons.
    """
    before, after = (
        policy_arrows(reachable, probabilities, visits, level_index, pressed=pressed) for pressed in (False, True)
    )
    if not level.buttons:
        return [Panel(arrows=before)]
    alone = len(level.buttons) == 1
    button = f"B{level.buttons[0].delay}" if alone else "a button"
    gone = 1 << len(level.coins) if alone else 0
    return [Panel(f"before {button}", arrows=before), Panel(f"after {button}", taken=gone, arrows=after)]


def _caption(numbers: LevelNumbers) -> str:
    lengths = _length_probabilities(numbers.length_probabilities)
    measures = f"usefulness {numbers.usefulness:.2f}   neutrality {numbers.neutrality:.2f}"
    if numbers.sampled:
        measures += "   (sampled)"
    return f"{measures}\n{textwrap.fill(lengths, 70, replace_whitespace=False)}"


def _length_probabilities(probabilities: Mapping[int, float]) -> str:
    return "   ".join(f"P({length})\u00a0=\u00a0{p:.2f}" for length, p in probabilities.items())


def _policy_figure(level: Level, rows: Sequence[PolicyRow], caption: str) -> Figure:
    """Return a figure with the rows below each other, the level's name on top and the caption below.

    All sizes are in inches.
    """
    side = min(0.75, max(0.3, 8 / max(level.height, level.width)))  # the side of a cell
    gap, row_gap = 0.35, 0.95
    panel_width, panel_height = side * level.width, side * level.height
    width = max(len(row.panels) for row in rows) * (panel_width + gap) - gap
    height = len(rows) * (panel_height + row_gap) - row_gap
    figure = Figure(figsize=(width, height), facecolor="white")
    style: dict[str, Any] = {"color": TEXT, "va": "bottom"}
    for row_index, row in enumerate(rows):
        bottom = height - panel_height - row_index * (panel_height + row_gap)
        for index, panel in enumerate(row.panels):
            left = index * (panel_width + gap)
            box = (left / width, bottom / height, panel_width / width, panel_height / height)
            ax = figure.add_axes(box)
            render(level, ax, taken=panel.taken, arrows=panel.arrows)
            ax.set_title(panel.title, fontsize=10, color=TEXT)
        if row.title:
            figure.text(0, (bottom + panel_height + 0.34) / height, row.title, fontsize=10, ha="left", **style)
    head = (0.34 if rows[0].panels[0].title else 0.12) + (0.36 if rows[0].title else 0)
    figure.text(0.5, 1 + head / height, level.name, fontsize=12, ha="center", parse_math=False, **style)
    figure.text(0.5, -0.12 / height, caption, fontsize=10, color=TEXT, ha="center", va="top", linespacing=1.5)
    return figure


def _file_names(levels: Sequence[Level]) -> list[str]:
    """Return a file name for each level: plain, short, and unique also on file systems that ignore case."""
    names: list[str] = []
    for level in levels:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", level.name).strip("._-")[:80] or "level"
        name, number = plain, 1
        while name.casefold() in (other.casefold() for other in names):
            number += 1
            name = f"{plain}-{number}"
        names.append(name)
    return [f"{name}.png" for name in names]
