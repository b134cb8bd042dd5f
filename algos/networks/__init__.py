"""The networks by name: each is a module with a function ``build`` and, if it has requirements, ``REQUIRES``."""

from drest_torch.registry import Registry

NETWORKS = Registry("policy.network", "drest_torch.algos.networks.{}", ("build",), "drest_torch.networks")
