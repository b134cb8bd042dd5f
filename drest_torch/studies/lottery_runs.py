"""The runs: policies of gridworlds climbed to by exact gradients, and agents trained and measured in menus."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drest_torch.choices import axioms, measures, prospects, suites
from drest_torch.choices.archetypes import Chooser
from drest_torch.choices.arms import train
from drest_torch.choices.generation import random_menus
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


def climb_worlds(spec: dict[str, Any], folder: Path) -> Result:
    """Climb the DReST return of all corridors and buttons: P(longer) and USEFULNESS of each [N]."""
    levels = [corridor(tenths) for tenths in spec["tenths"]] + [button(chance) for chance in spec["chances"]]
    optima = solve_levels(levels, 1.0)
    reachable = Reachable(compile_levels(levels))
    values = {name: spec[name] for name in ("lam", "episodes_per_meta", "steps")}
    values |= {"gamma": 1.0, "credit": "mini", "lr": [0.1, 0.3, 0.0001]}
    found = ascend(starting_logits(["uniform"], reachable, optima, 0.0), reachable, optima, values)
    useful = (found["p_length"] * found["share_of_best"]).sum(-1)
    return Result({}, {"longer": found["p_length"][:, 1].numpy(), "usefulness": useful.numpy()})


def train_arm(spec: dict[str, Any], folder: Path) -> Result:
    """Train the agents of an arm and measure each of them."""
    network = train(**{key: value for key, value in spec.items() if key != "items"})
    agents = [measure(network.chooser(agent), spec["items"]) for agent in range(spec["agents"])]
    arrays = {name: np.array([each[name] for each in agents]) for name in agents[0]}
    return Result({}, arrays)


def measure(chooser: Chooser, items: int) -> dict[str, float]:
    """Return all numbers of an agent by name; NaN where there is nothing to measure."""
    numbers: dict[str, float] = {}
    for name, suite in (suites.suites(items) | suites.extreme_suites()).items():
        score = suites.measure(suite.menus, chooser)
        numbers |= {name: score.taken, f"order gap/{name}": score.order_gap}
        numbers |= {f"error/{name}": 0.0 if suite.whole else score.error}
        numbers[f"resic/{name}"] = float(axioms.resic(chooser, suite.menus).sum())
        numbers[f"void/{name}"] = float(score.void)
    costs, rates = suites.SHIFT_COSTS, suites.shift_test(chooser, Fraction(1, 10), Fraction(9, 10))
    numbers["shift/never"] = suites.from_where_on(costs, rates, suites.EPSILON)
    numbers |= {f"shift/{cost:g}": rate for cost, rate in zip(costs, rates.tolist(), strict=True)}
    numbers |= deterministic(chooser)
    tested = axioms.items(items)
    both = {"ilpacs": axioms.ilpacs(chooser, tested), "maximality": axioms.maximality(chooser, items)}
    for name, share in both.items():
        numbers |= {name: share.value, f"items/{name}": float(share.items)}
    slack = axioms.dominated(chooser, tested)
    numbers |= {"slack": slack.value, "slack/worst": slack.worst}
    return numbers | prospects.numbers(chooser)


def deterministic(chooser: Chooser, number: int = 1000) -> dict[str, float]:
    """Return mean usefulness, and mean neutrality where there are two lengths, in new menus of sure trajectories."""
    numbers = {}
    for options, name in ((2, ""), (3, "/three")):
        menus = random_menus("sure", number, torch.Generator().manual_seed(77), options)
        policy = chooser(menus).double()
        two = menus.num_lengths > 1
        numbers[f"usefulness{name}"] = measures.usefulness(menus, policy).mean().item()
        numbers[f"neutrality{name}"] = measures.neutrality(menus, policy)[two].mean().item()
    return numbers
