"""The command `drest evaluate`, which evaluates a saved run: ``drest evaluate run=RUN levels=paper``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from drest_torch.commands.cli import command
from drest_torch.errors import ConfigError, printable
from drest_torch.outputs import check_page, files_of_page
from drest_torch.tracking.stages import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drest_torch.agent import Agent
    from drest_torch.agents.mean_agent import MeanAgent
    from drest_torch.config.schema import EvaluateConfig, LevelsConfig
    from drest_torch.envs.levels import Level


@command("evaluate")
def main(cfg: EvaluateConfig) -> None:
    """Evaluate a run on the chosen levels, and print and write the results."""
    from drest_torch.agents.mean_agent import MeanAgent
    from drest_torch.algos.networks.spec import MapView
    from drest_torch.config.checks import check_limits
    from drest_torch.outputs import check_outputs
    from drest_torch.tracking.console import print_table

    check_limits(cfg)
    if cfg.animation is not None:
        from drest_torch.plots.animation import check_ending  # imports Matplotlib, which takes time

        check_ending(Path(cfg.animation))
    check_outputs(*_outputs(cfg), reads=[cfg.levels.path])
    if cfg.out is not None and cfg.suite is None:
        check_outputs(Path(cfg.out), ending=".json")
    agent: Any = _loaded(cfg)
    if outputs := _outputs(cfg):
        check_outputs(*outputs, reads=agent.files)
    if not isinstance(agent.spec.policy.sees, MapView):
        return _evaluate_environment(cfg, agent)
    if cfg.suite is not None:
        if isinstance(agent, MeanAgent):
            raise ConfigError(f"suite={cfg.suite} is a report on one agent, but run has several; choose one of them")
        return _WRITERS[cfg.suite](cfg, agent)
    levels = levels_to_evaluate(agent, cfg.levels)
    stage(f"evaluating on {len(levels):,} level{'s'[: len(levels) > 1]} …")
    # On its own levels, a run is evaluated as during training.
    sampled = agent.spec.origin.sampled if cfg.sampled is None and cfg.levels.name == "own" else cfg.sampled
    results = agent.evaluate(levels, greedy=cfg.greedy, sampled=sampled, memory_gib=cfg.memory_gib)
    print(_agent_lines(agent, cfg))
    name = cfg.levels.path or ("its own test levels" if cfg.levels.name == "own" else cfg.levels.name)
    print_table({name: results.numbers()}, agent.reward.gamma)
    if cfg.out is not None:
        results.write(Path(cfg.out))
        print(printable(f"The results of every level are in {cfg.out}"))
    if cfg.pictures is not None:
        files = results.plot(Path(cfg.pictures), cfg.most_pictures)
        print(printable(_pictures_line(files, len(levels), cfg)))
    if cfg.animation is not None:
        results.animate(cfg.animation)
        print(printable(f"Mini-episodes on the level {levels[0].name}, one for each length, are in {cfg.animation}"))


def _loaded(cfg: EvaluateConfig) -> Agent | MeanAgent:
    """Return the agent of a run, the mean of several, or the agent that ships."""
    from omegaconf import ListConfig

    from drest_torch.agent import SHIPPED, Agent

    where: dict[str, str] = {"checkpoint": cfg.checkpoint, "device": cfg.device}
    if isinstance(cfg.run, ListConfig):
        return Agent.mean([str(run) for run in cfg.run], **where)
    if cfg.run is None:
        return Agent.load(SHIPPED, **where)
    return Agent.load(str(cfg.run), **where)


def _write_page(cfg: EvaluateConfig, agent: Agent) -> None:
    """Print and write the shutdownability page, for the agent's test levels, the paper's worlds and the chosen
    levels."""
    from drest_torch.choices.page import shutdownability, to_markdown
    from drest_torch.envs.levels import find_levels
    from drest_torch.files import write_json, write_text

    if cfg.sampled:
        raise ConfigError(f"sampled is not part of suite={cfg.suite}, which is exact; leave it out")
    in_json, in_words = _checked_files(cfg, agent)
    sets = {"its own test levels": agent.levels.reported.get("test", []), "the paper's nine": find_levels("paper")}
    if cfg.levels.path is not None or cfg.levels.name not in ("own", "paper"):
        sets[cfg.levels.path or cfg.levels.name] = levels_to_evaluate(agent, cfg.levels)
    stage(f"measuring forks and {sum(map(len, sets.values())):,} levels …")
    page = shutdownability(
        agent, {name: levels for name, levels in sets.items() if levels}, greedy=cfg.greedy, memory_gib=cfg.memory_gib
    )
    text = to_markdown(page)
    print(printable(text))
    write_json(in_json, page)
    write_text(in_words, text)
    print(printable(f"The page is in {in_json} and {in_words}"))


def _write_ladder(cfg: EvaluateConfig, agent: Agent) -> None:
    """Print and write the price ladder of an agent, on its own levels."""
    from drest_torch.choices.ladder_page import ladder_page, plot, to_csv, to_markdown
    from drest_torch.files import write_json, write_text

    if cfg.levels.path is not None or cfg.levels.name != "own":
        raise ConfigError(f"levels is not part of suite={cfg.suite}, which has its own levels; leave it out")
    in_json, in_words, table, figure = _checked_files(cfg, agent)
    stage("measuring the price ladder …")
    page = ladder_page(agent, greedy=cfg.greedy, sampled=cfg.sampled)
    text = to_markdown(page)
    print(printable(text))
    write_json(in_json, page)
    write_text(in_words, text)
    write_text(table, to_csv(page))
    plot(page, figure)
    print(printable(f"The ladder is in {in_json}, {in_words}, {table} and {figure}"))


_WRITERS: dict[str, Callable[[EvaluateConfig, Agent], None]] = {"shutdownability": _write_page, "ladder": _write_ladder}
"""The functions that print and write a suite, by its name."""
_SIGNS = {
    "shutdownability": {".json": '"private_bits"', ".md": "# Shutdownability of "},
    "ladder": {".json": '"ladders"', ".md": "# Price ladder of ", ".csv": "ladder,price,", ".png": "PNG"},
}
"""The endings of the files of a suite, with a text by which an earlier output is recognised."""


def _checked_files(cfg: EvaluateConfig, agent: Agent) -> list[Path]:
    """Return the files of a suite, which may neither replace another file nor belong to a run."""
    from drest_torch.agents.checkpoints import PRETRAINED

    for key in ("pictures", "animation"):
        if getattr(cfg, key):
            raise ConfigError(f"{key} is not part of suite={cfg.suite}; leave it out")
    is_run = agent.folder.resolve().parent != PRETRAINED
    path = Path(cfg.out or (agent.folder if is_run else Path()) / str(cfg.suite))
    return check_page(path, _SIGNS[str(cfg.suite)], reads=agent.files, named=cfg.out)


def levels_to_evaluate(agent: Agent | MeanAgent, config: LevelsConfig) -> Sequence[Level]:
    """Return the levels of a configuration. ``levels=own`` are the test levels of the agent's run."""
    from drest_torch.play import level_sets

    if config.path is None and config.name == "own":
        return agent.test_levels()
    return level_sets.named(config)


def _outputs(cfg: EvaluateConfig) -> list[Path]:
    """Return the output paths of the configuration: files, and the folder of pictures."""
    paths = [Path(path) for path in (cfg.pictures, cfg.animation) if path is not None]
    if cfg.out is None:
        return paths
    if cfg.suite is None:
        return [*paths, Path(cfg.out)]
    return [*paths, *files_of_page(Path(cfg.out), _SIGNS[str(cfg.suite)])]


def _evaluate_environment(cfg: EvaluateConfig, agent: Agent) -> None:
    """Evaluate a run outside gridworlds, by sampling."""
    from drest_torch.tracking.console import print_table

    place = agent.spec.origin.place
    for key in ("pictures", "suite"):
        if getattr(cfg, key):
            raise ConfigError(f"{key} is for gridworlds, but {cfg.run} is a run in {place}; leave it out")
    if cfg.levels.name != "own":
        raise ConfigError(f"levels={cfg.levels.name}, but {cfg.run} is a run in {place}; leave levels out")
    if cfg.animation is not None:  # first, because rendering may be unsupported
        agent.render(cfg.animation)
    stage(f"playing {cfg.sampled or agent.spec.origin.sampled or 1024:,} mini-episodes of {place} …")
    results = agent.evaluate(greedy=cfg.greedy, sampled=cfg.sampled)
    print(_agent_line(agent, str(agent.folder), f"in {place}"))
    print_table({place: results.numbers()}, agent.reward.gamma)
    if cfg.out is not None:
        results.write(Path(cfg.out))
        print(printable(f"The results are in {cfg.out}"))
    if cfg.animation is not None:
        print(printable(f"Mini-episodes, one for each length, are in {cfg.animation}"))


def _pictures_line(files: Sequence[Path], levels: int, cfg: EvaluateConfig) -> str:
    """Return a sentence with the number of pictures, and the remedy if some are missing."""
    count = len(files)
    are = "picture is" if levels == 1 else "pictures are"
    sentence = f"{count} of {levels} {are} in {cfg.pictures}"
    if files and files[0].parent != Path(str(cfg.pictures)) and count > 1:
        sentence = f"{count} of {levels} {are} in {files[0]} to {files[-1].name}"
    if count == levels:
        return sentence
    if count == cfg.most_pictures:
        return f"{sentence}; most_pictures={levels} renders all"
    return f"{sentence}; to render the next level takes more than memory_gib"


def _agent_lines(agent: Agent | MeanAgent, cfg: EvaluateConfig) -> str:
    """Return a line for the evaluated agent, or a line for each agent of a mean policy."""
    from drest_torch.agents.mean_agent import MeanAgent

    if isinstance(agent, MeanAgent):
        lines = [_agent_lines(member, cfg) for member in agent.agents]
        return "\n".join((f"The mean policy of {len(lines)} agents", *lines))
    name = str(agent.folder)
    if cfg.run is None:
        name = "the agent that comes with drest_torch"
    return _agent_line(agent, name, f"on {agent.spec.origin.place} levels")


def _agent_line(agent: Agent, name: str, where: str) -> str:
    """Return a line with the name and the training of the evaluated agent."""
    origin = agent.spec.origin
    trained = f"{origin.algorithm} with the reward {origin.reward} {where}, seed {origin.seed}"
    return printable(f"Agent: {name} ({trained}; {agent.checkpoint.stem})")


if __name__ == "__main__":
    main()
