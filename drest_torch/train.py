"""The command `drest train`, which trains an agent: ``drest train algo=ppo levels=generated reward=drest``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from drest_torch.commands.cli import command, importing

if TYPE_CHECKING:
    from drest_torch.config.schema import Config


@command("train")
def main(cfg: Config) -> None:
    """Start or resume a run, and print its final metrics."""
    with importing():
        from hydra.core.hydra_config import HydraConfig

        from drest_torch.commands.sweep import join_sweep, place_in_sweep
        from drest_torch.commands.sweep_folder import stopped
        from drest_torch.config.compose import recipes
        from drest_torch.errors import printable
        from drest_torch.hints import after_training
        from drest_torch.tracking.console import print_table
        from drest_torch.tracking.effort import effort, is_exact, rows
        from drest_torch.tracking.stages import stage
        from drest_torch.training.run import start_or_resume

    words = HydraConfig.get().overrides.task
    overridden = place_in_sweep(cfg, {word.lstrip("+~").partition("=")[0].partition(".")[0] for word in words})
    if cfg.resume is None:
        for line in recipes(cfg):
            stage(line, enabled=cfg.progress)
    run = start_or_resume(cfg, overridden)
    sweep = join_sweep(run.folder)
    summary = run.train()
    if summary is None:
        if sweep is not None:
            print(stopped(sweep), file=sys.stderr)
        sys.exit(130)  # the exit status for Ctrl-C; with -m, the remaining runs do not start
    print_table(summary["splits"], run.cfg.reward.gamma)
    took = f"; {rows(summary)}" if is_exact(summary) else ""
    print(printable(f"{effort(summary)} in {summary['wall_seconds']:.0f} s{took}; everything is in {run.folder}"))
    if sweep is None:
        print(printable(after_training(run.folder, run.task.evaluated_next())))


if __name__ == "__main__":
    main()
