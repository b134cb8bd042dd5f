"""The algorithms by name: each is a module with a class ``Algorithm`` and a dataclass ``Config`` of its settings."""

from drest_torch.registry import Registry

ALGORITHMS = Registry("algo.name", "algos.{}", ("Algorithm", "Config"), "drest_torch.algorithms")
