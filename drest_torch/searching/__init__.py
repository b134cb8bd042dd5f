"""Searches for values of the configuration, with Optuna."""
