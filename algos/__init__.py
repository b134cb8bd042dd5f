"""The algorithms by name. An algorithm is a module with a class ``Algorithm`` and, of its values, a ``Config``."""

from drest_torch.registry import Registry

ALGORITHMS = Registry("algo.name", "algos.{}", ("Algorithm", "Config"), "drest_torch.algorithms")
