"""Runs of small language models."""

import importlib.util

import pytest

from drest_torch.language.config import LanguageConfig
from drest_torch.language.training import Training

INSTALLED = all(map(importlib.util.find_spec, ("transformers", "tokenizers")))
transformers = pytest.mark.skipif(not INSTALLED, reason="needs the extra [language]")
SHORT = {"updates": 1, "warm_up": 0, "prompts": 2, "scenarios": 2, "selection": 2, "episodes_per_meta": 2}
"""The values of the shortest run."""


def run(folder, **values):
    return Training(LanguageConfig(run_dir=str(folder), progress=False, evaluations=2, **values))


def begun(folder, **values):
    made = run(folder, **values)
    made.begin()
    return made
