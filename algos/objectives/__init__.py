"""A registry of training objectives: modules with a class ``Objective`` and a dataclass ``Config``."""

from drest_torch.registry import Registry

OBJECTIVES = Registry(
    "objective.name", "drest_torch.algos.objectives.{}", ("Objective", "Config"), "drest_torch.objectives"
)
