"""Evaluate a saved run: ``python -m drest_torch.evaluate run=RUN levels=paper`` or ``levels.path=FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hydra
from omegaconf import OmegaConf

from drest_torch.agent import SHIPPED, Agent, levels_to_evaluate
from drest_torch.cli import register, stop_on_mistakes
from drest_torch.config.schema import LIMITS, check_limits, config_folder
from drest_torch.tracking.console import print_table

register()


@hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="evaluate")
@stop_on_mistakes
def main(cfg: Any) -> None:
    check_limits(OmegaConf.masked_copy(cfg, ["sampled", "memory_gib"]), LIMITS)
    agent = Agent.load(SHIPPED if cfg.run is None else cfg.run, checkpoint=cfg.checkpoint, device=cfg.device)
    levels = levels_to_evaluate(agent, cfg.levels)
    results = agent.evaluate(levels, greedy=cfg.greedy, sampled=cfg.sampled, memory_gib=cfg.memory_gib)
    print_table(results.rows())
    if cfg.out is not None:
        results.write(Path(cfg.out))
        print(f"The results of every level are in {cfg.out}")
    if cfg.pictures is not None:
        pictures = results.draw(Path(cfg.pictures))
        no_pictures = "No pictures: a plot of the first level needs more than memory_gib"
        print(f"{len(pictures)} pictures are in {cfg.pictures}" if pictures else no_pictures)


if __name__ == "__main__":
    main()
