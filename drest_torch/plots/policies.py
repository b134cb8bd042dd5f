"""A run in pictures: its learning curves, and its policy on levels as the paper's Figure 4 draws it."""

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

from drest_torch.plots.style import TEXT, write_figure
from envs.dynamics.mdp import NUM_ACTIONS
from envs.exact.propagator import Reachable
from envs.levels import Level
from envs.view.rendering import Panel, draw

# -------------------------------------------------------------------------------- learning curves


# ---------------------------------------------------------------------------------------- policies

RARELY = 0.01
"""Cells where the agent acts less often than this, on average, are left empty."""


@dataclass(frozen=True)
class LevelNumbers:
    """What stands below a level's picture."""

    usefulness: float
    neutrality: float
    length_probabilities: Mapping[int, float]
    """P(L = l) for each length l."""
    sampled: bool = False
    """Whether they are estimates."""


def policy_pictures(
    reachable: Reachable,
    policies: Mapping[str, Tensor],
    levels_to_draw: Sequence[int],
    folder: Path,
    *,
    numbers: Sequence[LevelNumbers],
) -> list[Path]:
    """Write one PNG a level with its policies (see `PolicyDrawings`); return the files.

    ``levels_to_draw`` are indices into the level set, and ``numbers`` has an entry for each level of it.
    """
    drawings = PolicyDrawings(reachable, policies)
    drawn = [reachable.mdp.levels[index] for index in levels_to_draw]
    paths = [folder / name for name in _file_names(drawn)]
    for index, level, path in zip(levels_to_draw, drawn, paths, strict=True):
        write_figure(_policy_figure(level, drawings.rows(index), _caption(numbers[index])), path)
    return paths


@dataclass(frozen=True)
class PolicyRow:
    """Panels that stand side by side."""

    title: str
    panels: list[Panel]


class PolicyDrawings:
    """Action probabilities [N, 4] in reachable states by their titles: a row each, under its title with P(L = l).

    A policy alone needs no title.
    """

    def __init__(self, reachable: Reachable, policies: Mapping[str, Tensor]) -> None:
        self.reachable = reachable
        self._each = [
            (title, each, reachable.visits(each), reachable.propagate(each).probability)
            for title, each in policies.items()
        ]

    def rows(self, level_index: int) -> list[PolicyRow]:
        level = self.reachable.mdp.levels[level_index]
        count = int(self.reachable.num_lengths[level_index])
        lengths = self.reachable.lengths[level_index, :count].tolist()
        rows = []
        for title, policy, visits, probability in self._each:
            does = _length_probabilities(dict(zip(lengths, probability[level_index, :count].tolist(), strict=True)))
            panels = policy_panels(level, self.reachable, policy, visits, level_index)
            rows.append(PolicyRow(title and f"{title}:   {does}", panels))
        return rows


def policy_arrows(
    reachable: Reachable, probabilities: Tensor, visits: Tensor, level_index: int, *, pressed: bool
) -> np.ndarray:
    """[H, W, 4] the probability of each action in each cell of a level, before or after the first button.

    A policy may see the time and the coins left: the probability at a cell is the mean over the states
    there, weighted by how likely the agent is to act in them. It is NaN where that is rare.
    """
    mdp, states = reachable.mdp, reachable.states
    level = mdp.levels[level_index]
    button_is_gone = (states.taken >> len(level.coins)) != 0
    of_interest = (mdp.level_of(states.spot) == level_index) & (button_is_gone == pressed)
    cell = states.spot[of_interest] - level_index * mdp.num_cells
    weight = visits.detach()[of_interest].double()
    weighted = weight.unsqueeze(-1) * probabilities.detach()[of_interest]
    there = weight.new_zeros(mdp.num_cells).index_add(0, cell, weight)
    total = weight.new_zeros(mdp.num_cells, NUM_ACTIONS).index_add(0, cell, weighted)
    arrows = torch.where(there < RARELY, math.nan, there).reciprocal().unsqueeze(-1) * total
    return arrows.reshape(mdp.height, mdp.width, NUM_ACTIONS)[: level.height, : level.width].cpu().numpy()


def policy_panels(
    level: Level, reachable: Reachable, probabilities: Tensor, visits: Tensor, level_index: int
) -> list[Panel]:
    """The policy before a button was entered and after it.

    A lone button is not drawn once it is gone; of several it is not known which is.
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
    """The rows one below the other, the level's name above them and the caption below; all in inches."""
    side = min(0.75, max(0.3, 8 / max(level.height, level.width)))  # of a cell
    gap, between = 0.35, 0.95
    across, high = side * level.width, side * level.height
    width = max(len(row.panels) for row in rows) * (across + gap) - gap
    height = len(rows) * (high + between) - between
    figure = Figure(figsize=(width, height), facecolor="white")
    words: dict[str, Any] = {"color": TEXT, "va": "bottom"}
    for down, row in enumerate(rows):
        bottom = height - high - down * (high + between)
        for index, panel in enumerate(row.panels):
            ax = figure.add_axes((index * (across + gap) / width, bottom / height, across / width, high / height))
            draw(level, ax, taken=panel.taken, arrows=panel.arrows)
            ax.set_title(panel.title, fontsize=10, color=TEXT)
        if row.title:
            figure.text(0, (bottom + high + 0.34) / height, row.title, fontsize=10, ha="left", **words)
    head = (0.34 if rows[0].panels[0].title else 0.12) + (0.36 if rows[0].title else 0)
    figure.text(0.5, 1 + head / height, level.name, fontsize=12, ha="center", parse_math=False, **words)
    figure.text(0.5, -0.12 / height, caption, fontsize=10, color=TEXT, ha="center", va="top", linespacing=1.5)
    return figure


def _file_names(levels: Sequence[Level]) -> list[str]:
    """A name for the file of each level: plain, short, and different even where case makes no difference."""
    names: list[str] = []
    for level in levels:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", level.name).strip("._-")[:80] or "level"
        name, again = plain, 1
        while name.casefold() in (other.casefold() for other in names):
            again += 1
            name = f"{plain}-{again}"
        names.append(name)
    return [f"{name}.png" for name in names]
