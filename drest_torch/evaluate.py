"""Evaluate a saved run: ``python -m drest_torch.evaluate run=RUN levels=paper`` or ``levels.path=FILE``."""

from __future__ import annotations

from pathlib import Path

from drest_torch.agent import SHIPPED, Agent, levels_to_evaluate
from drest_torch.cli import command
from drest_torch.config.checks import check_limits
from drest_torch.config.schema import EvaluateConfig
from drest_torch.tracking.console import print_table


@command("evaluate")
def main(cfg: EvaluateConfig) -> None:
    """Evaluate a run on the levels that were chosen, and print and write the results."""
    check_limits(cfg)
    agent = Agent.load(SHIPPED if cfg.run is None else cfg.run, checkpoint=cfg.checkpoint, device=cfg.device)
    levels = levels_to_evaluate(agent, cfg.levels)
    results = agent.evaluate(levels, greedy=cfg.greedy, sampled=cfg.sampled, memory_gib=cfg.memory_gib)
    print_table(results.rows())
    if cfg.out is not None:
        results.write(Path(cfg.out))
        print(f"The results of every level are in {cfg.out}")
    if cfg.pictures is not None:
        pictures = results.plot(Path(cfg.pictures))
        none = "No pictures: to render the first level takes more than memory_gib"
        print(f"{len(pictures)} pictures are in {cfg.pictures}" if pictures else none)


if __name__ == "__main__":
    main()
