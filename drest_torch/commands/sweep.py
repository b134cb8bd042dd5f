"""The comparison of runs at the end of a sweep: ``python -m drest_torch.train -m seed=0,1 algo=ppo,a2c``.

Each run adds its folder to a list in the folder of the sweep, which works with every launcher.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode

from drest_torch.comparison.printing import print_comparison
from drest_torch.comparison.records import RUNS_OF_SWEEP, find_runs
from drest_torch.errors import ConfigError
from drest_torch.outputs import refuse_links
from drest_torch.training.folder import command_line


def join_sweep(run: Path) -> Path | None:
    """Add a run to the list of its sweep; return the folder of the sweep, or None outside sweeps."""
    if not HydraConfig.initialized() or HydraConfig.get().mode is not RunMode.MULTIRUN:
        return None
    folder = Path(HydraConfig.get().sweep.dir)
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(folder, [RUNS_OF_SWEEP])
    with open(folder / RUNS_OF_SWEEP, "a", encoding="utf-8") as file:
        file.write(os.path.relpath(run, folder) + "\n")
    return folder


def refuse_run_of_sweep(run_dir: str) -> None:
    """Raise if a run would overwrite an earlier run of the same sweep."""
    if not HydraConfig.initialized() or HydraConfig.get().mode is not RunMode.MULTIRUN:
        return
    listed = Path(HydraConfig.get().sweep.dir) / RUNS_OF_SWEEP
    if not listed.is_file():
        return
    runs = [listed.parent / line for line in listed.read_text("utf-8").splitlines()]
    if Path(run_dir).resolve() in [run.resolve() for run in runs]:
        raise ConfigError(
            f"run_dir={run_dir} with -m and overwrite=true: each run would replace the one before it; leave run_dir "
            "out, or name what differs in it, as in 'run_dir=runs/seed${seed}'"
        )


class ComparisonAtEnd(Callback):
    """A callback of Hydra that prints the comparison of a sweep's runs at its end (`configs/config.yaml`)."""

    def on_multirun_end(self, config: Any, **rest: Any) -> None:
        """Print the table, and the command that prints it again."""
        folder = Path(config.hydra.sweep.dir)
        if not (folder / RUNS_OF_SWEEP).exists():  # with --cfg, for example
            return
        runs, _ = find_runs([folder])
        print_comparison(runs)
        print(f"The {len(runs)} runs of this sweep again, with their learning curves:")
        print(f"  {command_line('compare', str(folder), f'out={folder}/curves.png')}")
