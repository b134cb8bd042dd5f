"""The actions of an agent: one step in each of four directions."""

from __future__ import annotations

ACTIONS = ("up", "down", "left", "right")
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""The change of row and column by each action."""
NUM_ACTIONS = len(ACTIONS)
