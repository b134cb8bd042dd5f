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
    if cfg.animation is not None:
        from drest_torch.plots.animation import check_ending  # with matplotlib, which takes time

        check_ending(Path(cfg.animation))
    agent = Agent.load(SHIPPED if cfg.run is None else cfg.run, checkpoint=cfg.checkpoint, device=cfg.device)
    levels = levels_to_evaluate(agent, cfg.levels)
    results = agent.evaluate(levels, greedy=cfg.greedy, sampled=cfg.sampled, memory_gib=cfg.memory_gib)
    print_table(results.rows())
    if cfg.out is not None:
        results.write(Path(cfg.out))
        print(f"The results of every level are in {cfg.out}")
    if cfg.pictures is not None:
        print(_drawn(len(results.draw(Path(cfg.pictures), cfg.most_pictures)), len(levels), cfg))
    if cfg.animation is not None:
        results.animate(cfg.animation)
        print(f"Mini-episodes on the level {levels[0].name}, one for each length, are in {cfg.animation}")


def _drawn(count: int, levels: int, cfg: EvaluateConfig) -> str:
    """Return how many of the levels have a picture, and the remedy where some have none."""
    are = "picture is" if levels == 1 else "pictures are"
    sentence = f"{count} of {levels} {are} in {cfg.pictures}"
    if count == levels:
        return sentence
    if count == cfg.most_pictures:
        return f"{sentence}; most_pictures={levels} renders all"
    return f"{sentence}; to render the next level takes more than memory_gib"


if __name__ == "__main__":
    main()
