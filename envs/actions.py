"""What an agent can do: one step in each of four directions."""

from __future__ import annotations

ACTIONS = ("up", "down", "left", "right")
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""(rows, columns) of each action."""
NUM_ACTIONS = len(ACTIONS)
