"""The actions of an agent: one step in each of four directions."""

from __future__ import annotations

ACTIONS = ("up", "down", "left", "right")
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""The (rows, columns) that each action moves by."""
NUM_ACTIONS = len(ACTIONS)
