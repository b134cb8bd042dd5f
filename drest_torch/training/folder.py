"""The folder of a run, and the commands that go on from it."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from yaml import YAMLError

from drest_torch.config.reading import quoted, read_config
from drest_torch.config.stored import own_modules
from drest_torch.errors import ConfigError, UserError
from drest_torch.files import LOCK

if TYPE_CHECKING:
    from drest_torch.config.schema import Config

CHECKPOINTS = "checkpoints"
"""The name of the folder of checkpoints, inside the folder of a run."""


def withdraw(folder: Path) -> None:
    """Delete what a new run has written that could not begin; what is not of a run stays."""
    from drest_torch.tasks.gridworlds import SPLIT  # which takes torch, and commands begin without

    with suppress(OSError):
        for name in ("config.yaml", "metrics.jsonl", "provenance.json", SPLIT, LOCK):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def lengthen(cfg: Config, env_steps: int, folder: Path) -> bool:
    """Let a run go on to more steps, with evaluations as often as before; return whether it gets any longer."""
    if env_steps < cfg.env_steps:
        raise ConfigError(
            f"env_steps={env_steps} with resume={folder}, a run of {cfg.env_steps} steps; give more, or train anew in "
            "another run_dir"
        )
    if env_steps == cfg.env_steps:
        return False
    evaluations = round(cfg.evaluations * env_steps / cfg.env_steps)
    cfg.evaluations = max(cfg.evaluations + 1, evaluations)  # the last is at the end, and saves the run
    cfg.env_steps = env_steps
    return True


def resume_command(folder: Path) -> str:
    return command_line("train", f"resume={folder}", *imports_of(folder))


def next_commands(folder: Path, *levels: str) -> str:
    """Return what a user may want to do with a finished run, a line for each; it may be evaluated on these levels."""
    evaluate = command_line("evaluate", f"run={folder}", *levels, *imports_of(folder))
    compare = command_line("compare", str(folder), "OTHER_RUN", "out=curves.png")
    return f"Evaluate it:\n  {evaluate}\nCompare it with other runs:\n  {compare}"


def imports_of(folder: Path) -> list[str]:
    """Return what a command needs on its line to use the modules of a user's own that a run names."""
    try:
        named = sorted({module for _, module in own_modules(read_config(folder / "config.yaml"))})
    except (UserError, OSError, YAMLError, AttributeError, TypeError):
        return []  # the command will say what is wrong with it
    if not named:
        return []
    return [f"imports={','.join(named)}"]


def command_line(name: str, *arguments: str) -> str:
    """Return a command of this project as a user types it: beginning as the one that is running did."""
    as_script = sys.argv[0].startswith("drest ")  # `drest_torch.__main__` leaves its name there
    if name != "compare":  # the others give their arguments to Hydra, which has a grammar for values
        arguments = tuple(map(quoted, arguments))
    command = f"drest {name}" if as_script else f"python -m drest_torch.{name}"
    return " ".join([command, *map(shlex.quote, arguments)])
