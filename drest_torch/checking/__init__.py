"""Checks of third-party environments before training."""
