"""Train an agent: ``python -m drest_torch.train algo=ppo levels=generated reward=drest``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hydra

from drest_torch.cli import register, stop_on_mistakes
from drest_torch.config.schema import config_folder
from drest_torch.evaluation.summary import table_rows
from drest_torch.tracking.console import print_table
from drest_torch.training.run import resume, start

register()


@hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="config")
@stop_on_mistakes
def main(cfg: Any) -> None:
    run = start(cfg) if cfg.resume is None else resume(Path(cfg.resume))
    summary = run.train()
    if summary is None:
        sys.exit(130)  # the status of a program stopped by Ctrl-C; with -m, the remaining runs do not start
    print_table(table_rows(summary))
    print(f"{summary['env_steps']:,} steps in {summary['wall_seconds']:.0f} s; everything is in {run.folder}")


if __name__ == "__main__":
    main()
