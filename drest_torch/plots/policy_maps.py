"""Pictures of policies on levels, in the style of the paper's Figure 4."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import Level
from drest_torch.envs.objects import Button, Coin, Door, Lottery
from drest_torch.envs.view.rendering import Panel, cell_side, render
from drest_torch.files import unused
from drest_torch.outputs import PICTURES
from drest_torch.plots.style import TEXT, write_figure

KEY = {
    Coin: "C: a coin and its value",
    Button: "B: a button and the ticks by which it delays shutdown",
    Lottery: "a lottery: each outcome with its chance, coins and delay",
    Door: "a door, which lets the agent through in one direction",
}
"""Texts of the key by kind of object."""
RARELY = 0.01
"""The threshold for empty cells: the agent takes fewer actions per mini-episode there, on average."""


def policy_pictures(
    reachable: Reachable,
    policies: Mapping[str, Tensor],
    indices: Sequence[int],
    target: Path,
    captions: Sequence[str],
    agent: str = "",
) -> list[Path]:
    """Write one picture per level with its policies, each under its title and P(L = l), and return the files.

    ``target`` is a folder or a file, see `picture_paths`.
    ``policies`` are action probabilities [N, 4] in reachable states, by title; a single policy needs no title.
    ``indices`` select levels of the level set, each with its `caption`; ``agent`` is the name in the title.
    """
    probabilities = {title: reachable.propagate(table).probability for title, table in policies.items()}
    visits = {title: reachable.visits(table) for title, table in policies.items()}
    levels = [reachable.mdp.levels[index] for index in indices]
    paths = picture_paths(target, levels)
    for index, level, words, path in zip(indices, levels, captions, paths, strict=True):
        lengths = reachable.lengths[index, : reachable.num_lengths[index]].tolist()
        lines = {}
        for title, table in policies.items():
            by_length = dict(zip(lengths, probabilities[title][index].tolist(), strict=False))
            head = title and f"{title}:   {_length_probabilities(by_length)}"
            lines[head] = policy_panels(level, reachable, table, visits[title], index)
        name = f"{agent} on {level.name}" if agent else level.name
        write_figure(_policy_figure(level, lines, name, words), path)
    return paths


def policy_arrows(
    reachable: Reachable, probabilities: Tensor, visits: Tensor, level_index: int, *, pressed: bool
) -> np.ndarray:
    """Return [H, W, 4] the probability of each action in each cell of a level, before or after a button or lottery.

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
    """Return panels of the policy before the first button or lottery is entered, and after it, if that happens.

    The second panel omits objects that have always been taken by then.
    """
    before, after = (
        policy_arrows(reachable, probabilities, visits, level_index, pressed=pressed) for pressed in (False, True)
    )
    if not (level.buttons or level.lotteries):
        return [Panel(arrows=before)]
    single = len(level.buttons) == 1 and not level.lotteries
    button = f"B{level.buttons[0].delay}" if single else "a button or lottery"
    if np.isnan(after).all():
        return [Panel(f"{button} is not entered", arrows=before)]
    taken = _always_taken(level, reachable, visits, level_index)
    return [Panel(f"before {button}", arrows=before), Panel(f"after {button}", taken=taken, arrows=after)]


def _always_taken(level: Level, reachable: Reachable, visits: Tensor, level_index: int) -> int:
    """Return a bit mask of the objects that the agent has almost always taken once a button is pressed."""
    mdp, states = reachable.mdp, reachable.states
    pressed = (mdp.level_of(states.spot) == level_index) & ((states.taken >> len(level.coins)) != 0)
    taken, weight = states.taken[pressed], visits.detach()[pressed]
    return sum(1 << bit for bit in range(len(level.objects)) if weight[(taken >> bit & 1) == 0].sum() < RARELY)


def caption(usefulness: float, neutrality: float, chances: Mapping[int, float], sampled: bool = False) -> str:
    """Return the caption of a level: its metrics, whether they are estimates, and P(L = l) for each length l."""
    measures = f"usefulness {usefulness:.2f}   neutrality {neutrality:.2f} bits" + "   (sampled)" * sampled
    return f"{measures}\n{textwrap.fill(_length_probabilities(chances), 70, replace_whitespace=False)}"


def _length_probabilities(probabilities: Mapping[int, float]) -> str:
    return "   ".join(f"P({length})\u00a0=\u00a0{p:.2f}" for length, p in probabilities.items())


def _policy_figure(level: Level, lines: Mapping[str, Sequence[Panel]], title: str, caption: str) -> Figure:
    """Return a figure with a line of panels for each policy, a title, a caption and a key."""
    side, across = cell_side(level), max(map(len, lines.values()))
    below = "\n".join((caption, "", *_key(level, bits=any(head.startswith("bit") for head in lines))))
    height = len(lines) * (side * level.height + 0.45) + 0.175 * below.count("\n") + 0.7  # of the text below
    figure = Figure((across * (side * level.width + 0.35), height), facecolor="white")
    figure.set_layout_engine("constrained", wspace=0.06)
    for (head, panels), axes in zip(lines.items(), figure.subplots(len(lines), across, squeeze=False), strict=True):
        for panel, ax in zip_longest(panels, axes):
            ax.set_axis_off()
            if panel is not None:
                render(level, ax, taken=panel.taken, arrows=panel.arrows)
                ax.set_title(panel.title, fontsize=10, color=TEXT)
        if head:
            axes[0].set_title(f"{head}\n{panels[0].title}", fontsize=10, color=TEXT)
    figure.suptitle(title, fontsize=12, color=TEXT, parse_math=False)
    figure.supxlabel(below, fontsize=9, color=TEXT, linespacing=1.4, parse_math=False)
    return figure


def _key(level: Level, *, bits: bool) -> list[str]:
    """Return the explanations of the symbols of a picture."""
    kinds = {type(thing) for thing in (*level.objects, *level.fixtures)}
    return [
        "A: the agent's start",
        "arrows: moves; the thicker, the more likely",
        *(words for kind, words in KEY.items() if kind in kinds),
        "in the corner: ticks to shutdown" + ", unless delayed" * bool(level.buttons or level.lotteries),
        "P(l): the probability that shutdown comes after l ticks",
        *["bit: a random bit per mini-episode that only the agent sees"] * bits,
    ]


def picture_paths(target: Path, levels: Sequence[Level]) -> list[Path]:
    """Return the file of each level's picture.

    They are PNG files in a folder. If ``target`` ends in .png, .svg or .pdf, it is the file of a single level; the
    files of several levels have the names of the levels before the ending, as in ``figure-example.pdf``.
    """
    if target.suffix.lower() not in PICTURES or target.is_dir():
        return [target / f"{name}.png" for name in _file_names(levels)]
    if len(levels) == 1:
        return [target]
    return [target.with_name(f"{target.stem}-{name}{target.suffix}") for name in _file_names(levels)]


def _file_names(levels: Sequence[Level]) -> list[str]:
    """Return a plain, short file name without ending for each level, unique also where systems ignore case."""
    plain = (re.sub(r"[^A-Za-z0-9._-]+", "_", level.name).strip("._-")[:80] or "level" for level in levels)
    used = set[str]()
    return [unused(name, "{}-{}", used) for name in plain]
