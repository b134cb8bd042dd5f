"""Generalization: usefulness and neutrality on unseen levels, and the factors on which they depend."""

from __future__ import annotations

from drest_torch.studies.generalization.claims import CLAIMS, NUMBERS
from drest_torch.studies.generalization.measured import rows_of as rows
from drest_torch.studies.generalization.pages import FIGURES, TABLES
from drest_torch.studies.generalization.runs import FOLLOWUP_LIKE, PPO, Config, jobs

__all__ = ["CLAIMS", "FIGURES", "NUMBERS", "QUICK", "TABLES", "Config", "jobs", "rows"]

SMALL = ["env_steps=3000", "policy.width=8", "policy.depth=2", "evaluations=1"]
FEW = ["levels.train=64", "levels.selection=5", "levels.test=10", "device=cpu"]
QUICK = {
    "seeds": 1,
    "long_seeds": 1,
    "run": {"env_steps": 20_000, "evaluations": 2, "levels": {"test": 20, "selection": 10}},
    "numbers": {PPO: [1, 64], "a2c": [64], "reinforce": [64], "generalist": [64]},
    "number": 64,
    "kinds": [FOLLOWUP_LIKE, "three_lengths"],
    "overrides": [*SMALL, *FEW],
    "sizes": {"sides": [5, 9, 12], "levels": 4, "sampled": 16},
}
