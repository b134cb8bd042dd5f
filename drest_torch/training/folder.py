"""The folder of a run, and the commands that go on from it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

CHECKPOINTS = "checkpoints"
"""The name of the folder of checkpoints, inside the folder of a run."""


def resume_command(folder: Path) -> str:
    """Return the command that resumes the run of this folder."""
    return command_line("train", f"resume={folder}")


def next_commands(folder: Path, *, in_gridworld: bool = True) -> str:
    """Return what a user may want to do with a finished run, a line for each."""
    if not in_gridworld:
        evaluate = command_line("evaluate", f"run={folder}", "sampled=5000", "animation=lengths.gif")
        compare = command_line("compare", str(folder), "OTHER_RUN", "out=curves.png")
        return f"Evaluate it with more mini-episodes:\n  {evaluate}\nCompare it with other runs:\n  {compare}"
    evaluate = command_line("evaluate", f"run={folder}", "levels=paper", f"pictures={folder / 'evaluated'}")
    compare = command_line("compare", str(folder), "OTHER_RUN", "out=curves.png")
    return f"Evaluate it on other levels, with pictures:\n  {evaluate}\nCompare it with other runs:\n  {compare}"


def command_line(name: str, *arguments: str) -> str:
    """Return a command of this project as a user types it: beginning as the one that is running did."""
    as_script = sys.argv[0].startswith("drest ")  # `drest_torch.__main__` leaves its name there
    return " ".join([f"drest {name}" if as_script else f"python -m drest_torch.{name}", *map(shlex.quote, arguments)])
