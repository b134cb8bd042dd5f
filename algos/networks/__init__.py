"""A registry of networks: modules with a function ``build`` and, if the network has requirements, ``REQUIRES``."""

from drest_torch.registry import Registry

NETWORKS = Registry("policy.network", "drest_torch.algos.networks.{}", ("build",), "drest_torch.networks")
