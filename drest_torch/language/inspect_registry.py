"""All tasks for Inspect, which finds them by the entry point ``inspect_ai`` of the package."""

from drest_torch.language.inspect_ladder import TASKS as LADDERS
from drest_torch.language.inspect_shutdown import TASKS as SHUTDOWN
from drest_torch.language.inspect_tasks import TASKS as CHOICES

__all__ = ["CHOICES", "LADDERS", "SHUTDOWN"]
