"""The command ``drest play``: a page on this machine to draw a level and see what agents do on it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drest_torch.commands.cli import key_values, let_threads_sleep, one_sentence, streams
from drest_torch.errors import ConfigError, UserError, printable
from drest_torch.limits import limited
from drest_torch.registry import drop_working_directory
from drest_torch.tracking.stages import announce, stage

if TYPE_CHECKING:
    from drest_torch.agent import Agent
    from drest_torch.editor.answers import EvaluationLimits
    from drest_torch.envs.levels import Level

HELP = """\
Draw a level on a page of this machine, and see what an agent does on it.

  drest play
  drest play mine.txt agent=runs/mine save=scratch/mine.txt
  drest play paper out=scratch/page.html

The first argument is a level file (.txt or .jsonl), paper, or one of the
paper's worlds; example by default. Ctrl-C ends the page.

  agent=generalist  (text)
            The agents to choose from, with commas between them: folders of
            runs, or agents that ship. The latter are always on the page.
  save=null  (path, or null)
            The level file (.txt) that the page's button Save writes.
  port=0  (whole number from 0 to 65535)
            The port of the page; 0 takes a free one.
  out=null  (path, or null)
            Write a page (.html) that needs no server, with the results of these
            levels and agents, and end.
  changes=true  (true or false)
            With out: the results after each change of one cell, too.
  sampled=null  (whole number from 1 to 10000000, or null)
            Mini-episodes of an evaluation; null: exact.
  memory_gib=0.5  (number above 0)
            The memory that an exact evaluation may take."""
MOST_PORT = 65535


@dataclass
class PlayConfig:
    """The values of the page."""

    agent: str = "generalist"
    save: str | None = None
    port: int = limited(at_least=0, at_most=MOST_PORT, default=0)
    out: str | None = None
    changes: bool = True
    sampled: int | None = limited(at_least=1, at_most=10_000_000, default=None)
    memory_gib: float = limited(above=0, default=0.5)


def main() -> None:
    """Show the page until Ctrl-C, or write it to a file."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(HELP)
        return
    let_threads_sleep()
    with streams(), one_sentence():
        drop_working_directory()
        announce(arguments)
        _play(arguments)


def _play(arguments: list[str]) -> None:
    from drest_torch.config.checks import check_limits
    from drest_torch.editor.answers import EvaluationLimits
    from drest_torch.envs.levels import find_levels
    from drest_torch.outputs import check_outputs

    names = [word for word in arguments if "=" not in word]
    for word in names:
        if word.startswith("-"):
            raise UserError(f"{word}: no such option; see drest play --help")
    if len(names) > 1:
        raise UserError(f"{names[1]}: a second level; expected one file or name, and KEY=VALUE")
    cfg = key_values([word for word in arguments if "=" in word], PlayConfig)
    check_limits(cfg)
    levels = find_levels(*(names or ["example"]))
    for path, ending in ((cfg.save, ".txt"), (cfg.out, ".html")):
        if path is not None:
            check_outputs(Path(path), ending=ending)
    agents = _agents(cfg.agent)
    limits = EvaluationLimits(cfg.sampled, cfg.memory_gib)
    if cfg.out is not None:
        from drest_torch.editor.export import export

        stage(f"evaluating {len(agents)} agents on {len(levels)} levels …")
        export(levels, agents, limits, Path(cfg.out), changes=cfg.changes)
        print(f"The page is in {printable(cfg.out)}")
        return
    _serve(levels, agents, limits, cfg)


def _agents(text: str) -> dict[str, Agent]:
    """Return agents of gridworlds by name, from names or folders with commas between them."""
    from drest_torch.agent import Agent

    agents = {}
    for name in filter(None, (part.strip() for part in text.split(","))):
        agent = Agent.load(name)
        _ = agent.map_size  # raises for an agent outside gridworlds
        agents[name] = agent
    if not agents:
        raise ConfigError("agent= names no agent; expected the folder of a run, or the name of an agent that ships")
    return agents


def _serve(levels: Sequence[Level], agents: dict[str, Agent], limits: EvaluationLimits, cfg: PlayConfig) -> None:
    """Serve the page until Ctrl-C."""
    from drest_torch.agents.checkpoints import pretrained_names
    from drest_torch.editor.desk import Desk
    from drest_torch.editor.editor_page import render
    from drest_torch.editor.server import ADDRESS, start

    agents = {**agents, **_agents(",".join(pretrained_names()))}
    save = None
    if cfg.save is not None:
        save = Path(cfg.save)
    desk = Desk(levels, agents, limits, save)
    server = start(render(levels, agents, {"save": cfg.save}), desk, cfg.port)
    with server:
        stage("preparing the first answer …")
        desk.warm_up()
        print(f"http://{ADDRESS}:{server.server_address[1]}/ shows the page; Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
