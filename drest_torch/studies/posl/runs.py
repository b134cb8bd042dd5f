"""The runs: agents trained in menus, and agents of gridworlds that exist, on the prospects of appendix C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drest_torch.agent import Agent
from drest_torch.choices.archetypes import Chooser
from drest_torch.choices.arms import train
from drest_torch.choices.grid import TURNS, grid_chooser
from drest_torch.choices.prospects import numbers
from drest_torch.jobs.job import Result


def train_arm(spec: dict[str, Any], folder: Path) -> Result:
    """Train the agents of an arm and measure each of them: arrays [agents]."""
    network = train(spec["arm"], **{key: value for key, value in spec.items() if key not in ("arm", "pairs")})
    return Result({}, measured([network.chooser(agent) for agent in range(spec["agents"])], spec["pairs"]))


def ask(spec: dict[str, Any], folder: Path) -> Result:
    """Measure an agent of gridworlds in each symmetry of the levels that menus become: arrays [8]."""
    agent = Agent.load(spec["agent"])
    return Result({}, measured([grid_chooser(agent, turn) for turn in range(TURNS)], spec["pairs"]))


def measured(choosers: list[Chooser], pairs: int) -> dict[str, np.ndarray]:
    """Return the numbers of several agents by name."""
    found = [numbers(chooser, pairs) for chooser in choosers]
    return {name: np.array([each[name] for each in found]) for name in found[0]}
