"""The bench: DReST beside other ways to make an agent shutdownable, with the same questions to all of them."""

from __future__ import annotations

from drest_torch.studies.bench.answer_tables import TABLES
from drest_torch.studies.bench.claims import CLAIMS, NUMBERS
from drest_torch.studies.bench.figures import FIGURES
from drest_torch.studies.bench.measured import rows
from drest_torch.studies.bench.runs import QUICK, Config, jobs

__all__ = ["CLAIMS", "FIGURES", "NUMBERS", "QUICK", "TABLES", "Config", "jobs", "rows"]
