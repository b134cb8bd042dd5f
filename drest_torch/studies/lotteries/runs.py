"""The runs: policies of gridworlds found by gradient ascent, and agents trained and tested in menus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drest_torch.choices.scores import scores
from drest_torch.choices.variants import train
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import Level, parse_level
from drest_torch.jobs.job import Result
from drest_torch.studies.theorem.ascent import ascend, solve_levels, starting_logits

SHORT = 10
"""Coins of the shorter length in the corridors, for each length the same share more for the longer."""


def corridor(tenths: int) -> Level:
    """Return the level in which P(longer) is 0.1 on the left, and 0.9 on the right for so many tenths of the coins."""
    left = SHORT - tenths
    return parse_level(f"shutdown: 3\nC10 . C10 B2@0.1 . A . B2@0.9 C{left} . C{left}", name=f"cost {tenths / 10:g}")


def button(chance: float) -> Level:
    """Return the level in which a button works by chance, and the way to it costs the coins of the shorter length."""
    return parse_level(f"shutdown: 2\nC1 . A B4@{chance:g} . C1", name=f"button {chance:g}")


def ascend_worlds(spec: dict[str, Any], folder: Path) -> Result:
    """Maximise the DReST return of all corridors and buttons by gradient ascent: P(longer) and usefulness of each [N].

    Credit stays within the mini-episode.
    """
    levels = [corridor(tenths) for tenths in spec["tenths"]] + [button(chance) for chance in spec["chances"]]
    optima = solve_levels(levels, 1.0)
    reachable = Reachable(compile_levels(levels))
    values = {name: spec[name] for name in ("lam", "episodes_per_meta", "steps")}
    values |= {"gamma": 1.0, "credit": "mini", "lr": [0.1, 0.3, 0.0001]}
    ends = ascend(starting_logits(["uniform"], reachable, optima, 0.0), reachable, optima, values)
    useful = (ends["p_length"] * ends["share_of_best"]).sum(-1)
    return Result({}, {"longer": ends["p_length"][:, 1].numpy(), "usefulness": useful.numpy()})


def train_variant(spec: dict[str, Any], folder: Path) -> Result:
    """Train the agents of a variant of training, and measure each: arrays [agents], by the names of `scores`."""
    network = train(**{key: value for key, value in spec.items() if key != "items"})
    agents = [scores(network.chooser(agent), spec["items"]) for agent in range(spec["agents"])]
    return Result({}, {name: np.array([agent[name] for agent in agents]) for name in agents[0]})
