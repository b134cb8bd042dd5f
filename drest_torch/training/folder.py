"""The folder of a run: its lock, its checkpoints and its length, and the files that the run reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drest_torch.errors import ConfigError
from drest_torch.files import LOCK, lock_folder, read_whole, remove_partial

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


def absolute_inputs(cfg: Config) -> list[str]:
    """Make the paths of the level files and agents that a run reads absolute, and return them.

    The run may be resumed or evaluated from another working directory.
    """
    from drest_torch.agents.checkpoints import absolute_agent, agent_folder  # imports torch, which commands import late
    from drest_torch.algos import ALGORITHMS
    from drest_torch.play.level_sets import level_files

    inputs: list[str] = []
    for group, key, path in level_files(cfg):
        inputs.append(str(path.resolve()))
        setattr(getattr(cfg, group), key, inputs[-1])
    if cfg.start_from is not None:
        agent_folder(cfg.start_from)  # raises if there is none
        cfg.start_from = absolute_agent(cfg.start_from)
        inputs.append(cfg.start_from)
    for key in ALGORITHMS[cfg.algo.name].Algorithm.agents:
        names = [absolute_agent(str(name)) for name in getattr(cfg.algo, key)]
        setattr(cfg.algo, key, names)
        inputs += names
    return inputs


def count_evaluations(path: Path) -> int:
    """Count the evaluations in a file of metrics; a checkpoint is saved after each of them except the first."""
    if not path.is_file():
        return 0
    return sum("eval/" in line for line in path.read_text("utf-8").splitlines())


def hashes(folder: Path, splits: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the SHA-256 of the files with the values of every level, by name."""
    names = [str(metrics["file"]) for metrics in splits.values() if "file" in metrics]
    return {name: hashlib.sha256(read_whole(folder / name)).hexdigest() for name in names}


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
