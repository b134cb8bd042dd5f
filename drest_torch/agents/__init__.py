"""Saved agents: checkpoints, specifications, acting and evaluation."""
