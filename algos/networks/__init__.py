"""The networks by name. A network is a module with a function ``build`` and, if it needs anything, ``REQUIRES``."""

from __future__ import annotations

from algos.networks.base import Requirements
from drest_torch.registry import Registry

NETWORKS = Registry("policy.network", "algos.networks.{}", ("build",), "drest_torch.networks")


def requirements(network: str) -> Requirements:
    """Return what a network needs of the configuration."""
    needed: Requirements = getattr(NETWORKS[network], "REQUIRES", Requirements())
    return needed
