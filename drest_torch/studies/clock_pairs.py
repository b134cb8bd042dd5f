"""The two rewards on pairs of clocks: what the studies of tabular agents on single worlds share."""

from __future__ import annotations

REWARDS = {"default": "default", "drest": "DReST"}
RANDOM_FIRST = "steps / steps, random play first"
"""The last pair of clocks for agents that play at random for a while before the paper's schedules begin."""
