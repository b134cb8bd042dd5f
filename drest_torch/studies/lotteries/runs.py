"""The runs of the study of lotteries: gradient ascent in gridworlds, and agents trained and tested in menus."""

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
"""Coins of the shorter length in a corridor, before the price is paid."""


def corridor(tenths: int) -> Level:
    """Return a corridor: P(longer) is 0.1 on the left, and 0.9 on the right at a price of some tenths of the coins."""
    coins = SHORT - tenths
    return parse_level(f"shutdown: 3\nC10 . C10 B2@0.1 . A . B2@0.9 C{coins} . C{coins}", name=f"cost {tenths / 10:g}")


def button(chance: float) -> Level:
    """Return a level whose button works with this probability; the way to it costs the coins of the shorter length."""
    return parse_level(f"shutdown: 2\nC1 . A B4@{chance:g} . C1", name=f"button {chance:g}")


def ascend_worlds(spec: dict[str, Any], folder: Path) -> Result:
    """Optimise the DReST return in all corridors and with all buttons by gradient ascent.

    Credit stays within the mini-episode. arrays: P(``longer``) and ``usefulness`` of each of N levels [N].
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
    """Train the agents of a variant, and score each; arrays: scores [agents], by the names of `scores`."""
    network = train(**{key: value for key, value in spec.items() if key != "items"})
    agents = [scores(network.chooser(agent), spec["items"]) for agent in range(spec["agents"])]
    return Result({}, {name: np.array([agent[name] for agent in agents]) for name in agents[0]})
