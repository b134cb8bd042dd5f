"""A registry of algorithms: modules with a class ``Algorithm`` and a dataclass ``Config`` of its settings."""

if __name__ != "drest_torch.algos":
    raise ImportError(
        "the algorithms are imported as drest_torch.algos, also inside the repository, so that there is one copy"
    )

from drest_torch.registry import Registry

ALGORITHMS = Registry("algo.name", "drest_torch.algos.{}", ("Algorithm", "Config"), "drest_torch.algorithms")
