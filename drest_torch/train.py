"""Train an agent: ``python -m drest_torch.train algo=ppo levels=generated reward=drest``."""

from __future__ import annotations

import sys
from pathlib import Path

from drest_torch.cli import command
from drest_torch.config.schema import Config
from drest_torch.evaluation.summary import split_scores
from drest_torch.tracking.console import print_table
from drest_torch.training.run import resume, start


@command("train")
def main(cfg: Config) -> None:
    """Start or resume a run, and print what it learned."""
    run = start(cfg) if cfg.resume is None else resume(Path(cfg.resume))
    summary = run.train()
    if summary is None:
        sys.exit(130)  # the status of a program stopped by Ctrl-C; with -m, the remaining runs do not start
    print_table(split_scores(summary))
    print(f"{summary['env_steps']:,} steps in {summary['wall_seconds']:.0f} s; everything is in {run.folder}")


if __name__ == "__main__":
    main()
