"""The networks by name: each is a module with a function ``build`` and, if it has requirements, ``REQUIRES``."""

from __future__ import annotations

from drest_torch.algos.networks.base import Requirements
from drest_torch.registry import Registry

NETWORKS = Registry("policy.network", "drest_torch.algos.networks.{}", ("build",), "drest_torch.networks")


def requirements(network: str) -> Requirements:
    """Return what a network requires of the configuration."""
    required: Requirements = getattr(NETWORKS[network], "REQUIRES", Requirements())
    return required
