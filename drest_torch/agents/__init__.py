"""Saved agents: their checkpoints, their specification, and what they do."""
