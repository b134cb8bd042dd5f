"""Agents that are useful and neutral about when they get shut down: the paper's mathematics in PyTorch."""

from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.transform import DReSTReward

__all__ = ["DReSTReward", "neutrality", "neutrality_normalised", "usefulness"]
