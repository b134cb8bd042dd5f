"""Runs of sweeps: of Hydra (``drest train -m seed=0,1 algo=ppo,a2c``), and of W&B (``wandb agent``).

Each run of a sweep of Hydra adds its folder to a list in the folder of the sweep, which works with every launcher. At
the end they are compared. A preempted run of a W&B sweep resumes in its folder.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode

from drest_torch.commands.sweep_folder import continue_command, failures
from drest_torch.comparison.printing import print_comparison
from drest_torch.comparison.records import RUNS_OF_SWEEP, find_runs, list_run
from drest_torch.config.schema import Config
from drest_torch.errors import printable
from drest_torch.hints import CURVES, compare

VARIABLES = ("WANDB_SWEEP_ID", "WANDB_RUN_ID")
"""Environment variables in which an agent names the sweep and the run. A preempted run gets the same names again."""


def join_sweep(run: Path) -> Path | None:
    """Add a run to the list of its sweep; return the folder of the sweep, or None outside sweeps."""
    if not HydraConfig.initialized() or HydraConfig.get().mode is not RunMode.MULTIRUN:
        return None
    folder = Path(HydraConfig.get().sweep.dir)
    list_run(folder, run)
    return folder


def place_in_sweep(cfg: Config, keys: Collection[str]) -> Collection[str]:
    """Set the folder of a run of a W&B sweep to ``runs/sweeps/SWEEP/RUN``; return the keys that the user set.

    If the folder contains a checkpoint, the run is resumed, and its own configuration applies. Outside sweeps, or with
    a ``run_dir`` of the user, nothing changes.
    """
    names = [os.environ.get(variable, "") for variable in VARIABLES]
    if not {"run_dir", "resume"}.isdisjoint(keys) or not all(re.fullmatch(r"[\w-]+", name) for name in names):
        return keys
    folder = Path("runs", "sweeps", *names)
    if any((folder / "checkpoints").glob("*.safetensors")):
        cfg.resume = str(folder)
        return []
    cfg.overwrite = True  # the files of a run that was killed before its first checkpoint
    cfg.run_dir = str(folder)
    return keys


class ComparisonAtEnd(Callback):
    """A callback of Hydra that prints the comparison of a sweep's runs at its end (`configs/config.yaml`)."""

    def on_multirun_end(self, config: Any, **rest: Any) -> None:
        """Print the table, the command that prints it again, and the failures; with these, exit with 1."""
        folder = Path(config.hydra.sweep.dir)
        if not (folder / RUNS_OF_SWEEP).exists():  # with --cfg, for example
            return
        runs, _ = find_runs([folder])
        if runs:
            print_comparison(runs)
            print(f"The {len(runs)} runs of this sweep again, with their learning curves:")
            print(f"  {compare(folder, out=folder / CURVES)}")
        sentences = failures(folder)
        for sentence in sentences:
            print(printable(sentence), file=sys.stderr)
        if sentences:
            print(f"Try the failed runs again: {continue_command(folder)}", file=sys.stderr)
            sys.exit(1)
