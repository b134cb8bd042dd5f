"""The files of an agent, and copies of them for sharing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from drest_torch.agents.checkpoints import load_checkpoint, save_checkpoint, step_checkpoints, step_path
from drest_torch.agents.specification import agent_config
from drest_torch.config.stored import load_config
from drest_torch.errors import ConfigError
from drest_torch.files import LOCK, write_whole
from drest_torch.outputs import check_outputs, is_run, refuse_links
from drest_torch.play import level_sets as data


def files_of(folder: Path, checkpoint: Path) -> list[Path]:
    """Return the files that loading an agent reads: configuration, checkpoint and level files."""
    config = folder / "config.yaml"
    if not config.is_file():
        return [checkpoint]
    levels = [path for _, _, path in data.level_files(agent_config(folder))]
    return [config, checkpoint, *levels]


def save_agent(folder: Path, checkpoint: Path, parts: tuple[str, ...], target: Path) -> Path:
    """Save the files that evaluation needs to the folder ``target``: configuration, levels and policy weights.

    Tensors are saved whose names begin with one of ``parts``.
    """
    level_files = data.level_files(agent_config(folder))
    copies = {(group, key): f"{group}-{key}{file.suffix}" for group, key, file in level_files}
    _refuse_another(target, copies.values())
    tensors, values = load_checkpoint(checkpoint)
    cfg: Any = load_config(folder, whole=False)
    cfg.run_dir, cfg.threads = "runs/shipped", None
    for group, key, file in level_files:
        copy = copies[group, key]
        write_whole(target / copy, file.read_bytes())
        setattr(getattr(cfg, group), key, copy)
    write_whole(target / "config.yaml", OmegaConf.to_yaml(cfg).encode())
    policy = {name: tensor for name, tensor in tensors.items() if name.startswith(parts)}
    saved = step_path(target / "checkpoints", values["steps"])
    save_checkpoint(saved, policy, values)
    for other in step_checkpoints(saved.parent):
        if other != saved:
            other.unlink()
    return target


def _refuse_another(folder: Path, copies: Iterable[str]) -> None:
    """Raise if saving would replace a file in the folder, unless the folder holds a saved agent."""
    check_outputs(folder)
    names: set[str] = set()
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
    if is_run(folder):
        if names & {"metrics.jsonl", "summary.json", "provenance.json", LOCK}:
            raise ConfigError(f"{folder}: holds a run, which an agent would replace; save it to another folder")
        refuse_links(folder)
    elif taken := sorted(names & {"config.yaml", "checkpoints", *copies}):
        raise ConfigError(f"{folder} holds {taken[0]} already, which an agent would replace; save it to another folder")
