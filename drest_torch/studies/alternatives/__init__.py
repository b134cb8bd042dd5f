"""The bench: DReST beside other ways to make an agent shutdownable, with the same questions to all of them."""

from __future__ import annotations

from drest_torch.studies.alternatives.answer_tables import TABLES
from drest_torch.studies.alternatives.claims import CLAIMS, NUMBERS
from drest_torch.studies.alternatives.figures import FIGURES
from drest_torch.studies.alternatives.measured import rows
from drest_torch.studies.alternatives.runs import QUICK, Config, jobs

__all__ = ["CLAIMS", "FIGURES", "NUMBERS", "QUICK", "TABLES", "Config", "jobs", "rows"]
