"""DReST and its alternatives (section 8.1 of the paper): weighted sums, constraints, prices on divergence."""

from __future__ import annotations

from drest_torch.studies.alternatives.claims import CLAIMS, NUMBERS
from drest_torch.studies.alternatives.figures import FIGURES, TABLES
from drest_torch.studies.alternatives.measured import rows
from drest_torch.studies.alternatives.runs import QUICK, Config, jobs

__all__ = ["CLAIMS", "FIGURES", "NUMBERS", "QUICK", "TABLES", "Config", "jobs", "rows"]
