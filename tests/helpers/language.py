"""Runs of small language models."""

import importlib.util

import pytest

from drest_torch.language import prompt_files
from drest_torch.language.config import LanguageConfig
from drest_torch.language.training import run_of, start

INSTALLED = all(map(importlib.util.find_spec, ("transformers", "tokenizers")))
transformers = pytest.mark.skipif(not INSTALLED, reason="needs the extra [language]")
SHORT = {"updates": 1, "warm_up": 0, "prompts": 2, "scenarios": 2, "selection": 2, "episodes_per_meta": 2}
"""Settings of the shortest run."""


def sure_prompt(*options, order=0):
    """Return a prompt of certain lengths: its options are pairs of a length and a score."""
    offers = [{"length": length, "score": score} for length, score in options]
    return prompt_files.as_prompt({"scenario": "s", "order": order, "prompt": "x", "options": offers}, "here")


def configured(folder, **values):
    return LanguageConfig(run_dir=str(folder), progress=False, **{"evaluations": 2} | values)


def untrained(folder, **values):
    """Return a run that has not written anything yet."""
    return run_of(configured(folder, **values))


def begun(folder, **values):
    return start(configured(folder, **values))


def scores(summary):
    return summary["splits"]["selection"]
