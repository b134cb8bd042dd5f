"""The folder of a run, and the commands that continue from it."""

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
from drest_torch.files import LOCK, lock_folder, remove_partial

if TYPE_CHECKING:
    from drest_torch.config.schema import Config

CHECKPOINTS = "checkpoints"
"""The name of the folder of checkpoints in the folder of a run."""


def enter(folder: Path) -> None:
    """Lock the folder of a run, or raise if another process has locked it; delete partially written files."""
    lock_folder(
        folder, lambda: ConfigError(f"{folder}: another process trains in it; wait for it, or choose another run_dir")
    )
    remove_partial(folder)


def count_evaluations(path: Path) -> int:
    """Count the evaluations in a file of metrics; a checkpoint is saved after each of them except the first."""
    if not path.is_file():
        return 0
    return sum("eval/" in line for line in path.read_text("utf-8").splitlines())


def withdraw(folder: Path) -> None:
    """Delete the files of a new run that could not start; keep all other files."""
    from drest_torch.tasks.gridworlds import SPLIT  # imports torch, which commands import late

    with suppress(OSError):
        for name in ("config.yaml", "metrics.jsonl", "provenance.json", SPLIT, LOCK):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def lengthen(cfg: Config, env_steps: int, folder: Path) -> bool:
    """Extend a run to more steps with the same interval between evaluations; return True if it is longer now."""
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
    """Return suggested commands for a finished run: evaluation on these levels, and comparison."""
    evaluate = command_line("evaluate", f"run={folder}", *levels, *imports_of(folder))
    compare = command_line("compare", str(folder), "OTHER_RUN", "out=curves.png")
    return f"Evaluate it:\n  {evaluate}\nCompare it with other runs:\n  {compare}"


def imports_of(folder: Path) -> list[str]:
    """Return the arguments of a command that import the user's modules in a run's configuration."""
    try:
        modules = sorted({module for _, module in own_modules(read_config(folder / "config.yaml"))})
    except (UserError, OSError, YAMLError, AttributeError, TypeError):
        return []  # the command will report the error
    if not modules:
        return []
    return [f"imports={','.join(modules)}"]


def command_line(name: str, *arguments: str) -> str:
    """Return a command of this project for a shell, in the form of the running command: ``drest`` or ``python -m``."""
    as_script = sys.argv[0].startswith("drest ")  # set by `drest_torch.__main__`
    if name != "compare":  # the others pass their arguments to Hydra, which has a grammar for values
        arguments = tuple(map(quoted, arguments))
    command = f"drest {name}" if as_script else f"python -m drest_torch.{name}"
    return " ".join([command, *map(shlex.quote, arguments)])
