"""A small language model that chooses between options: DReST, rival rewards, and generalization to lotteries.

For each seed a small transformer is pretrained on prompts of this project, and then trained with each reward by exact
gradients. This needs the extra ``drest_torch[language]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.language.claims import CLAIMS, NUMBERS
from drest_torch.studies.language.measured import BONUS, DEFAULT, DREST, MENDED, rows_of
from drest_torch.studies.language.pages import (
    action_taken,
    between_sure_times,
    lines_table,
    post_table,
    read_twice,
    suites_table,
)

__all__ = ["CLAIMS", "FIGURES", "NUMBERS", "QUICK", "TABLES", "Config", "jobs", "rows"]

SCENARIO_SEED = 3
"""The seed of the scenarios; seeds 1 and 2 were published with half the updates of pretraining and of training."""


@dataclass
class Config(StudyConfig):
    seeds: int = limited(at_least=1, default=5)
    """The number of pretrained models; each is then trained with every reward."""
    scenarios: int = limited(at_least=2, default=200)
    """Scenarios of each suite, from the six held-out families, each in two orders of the options."""
    pretraining: dict[str, Any] = value(
        {"warm_up": 2000, "updates": 1, "scenarios": 20_000, "lr": 0.003, "muon_lr": 0.03}
    )
    """Values of `drest language train` for pretraining, in which the model learns to read; shared by all rewards."""
    common: dict[str, Any] = value({"updates": 1400, "warm_up": 0, "scenarios": 10_000, "lr": 0.003, "muon_lr": 0.03})
    """Values of all trainings after pretraining."""
    models: dict[str, dict[str, Any]] = value(
        {
            DREST: {},
            DEFAULT: {"reward": "default"},
            BONUS: {"entropy": 0.05},
            MENDED: {"suites": "post,lotteries", "reward": "supports"},
        }
    )
    """The trainings by name, with values that override the common ones."""


QUICK = {
    "seeds": 2,
    "scenarios": 5,
    "pretraining": {"warm_up": 4, "scenarios": 50},
    "common": {"updates": 4, "scenarios": 50},
}


def jobs(cfg: Config) -> dict[int, Job]:
    """Return a run for each seed, in which a model is pretrained and then trained with each reward."""
    values: dict[str, Any] = {"scenarios": cfg.scenarios, "scenario_seed": SCENARIO_SEED}
    values["pretraining"] = dict(cfg.pretraining)
    values["models"] = {name: {**cfg.common, **further} for name, further in cfg.models.items()}
    return {
        seed: Job(f"language-{seed}", "drest_torch.studies.language.runs:train", {**values, "seed": seed})
        for seed in range(cfg.seeds)
    }


def rows(cfg: Config, done: Mapping[int, Result]) -> pd.DataFrame:
    """Return the means over scenarios, with a row for each model, seed, suite and way of reading answers."""
    return pd.concat([rows_of(result, seed=seed) for seed, result in done.items()], ignore_index=True)


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    "post": between_sure_times,
    "takes": action_taken,
    "lines_neutrality": partial(read_twice, column="neutrality", head="neutrality ÷ log2 k"),
    "lines_usefulness": partial(read_twice, column="usefulness", head="usefulness"),
}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "post": post_table,
    "suites": suites_table,
    "lines": lines_table,
}
