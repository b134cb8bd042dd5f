"""Make folders to work in, and compare those of two runs, without what a clock or the number of sessions says."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from drest_torch.building.checkpoints import load_checkpoint

NOT_COMPARED = (".lock", "wandb")


def folders(count: int) -> Iterator[Path]:
    """Yield so many empty folders, one after the other."""
    for _ in range(count):
        with TemporaryDirectory() as folder:
            yield Path(folder)


def contents(folder: Path) -> dict[str, Any]:
    """Return what each file of a run says, by its path."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not set(path.relative_to(folder).parts) & set(NOT_COMPARED)
    }


def differences(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """Return the files that only one of two runs has, or that say other things."""
    return [
        f"{name}: {'missing' if name not in two else 'extra' if name not in one else 'other'}"
        for name in sorted(one.keys() | two.keys())
        if one.get(name) != two.get(name)
    ]


def _content(path: Path) -> Any:
    if path.suffix == ".safetensors":
        tensors, meta = load_checkpoint(path)
        data = {
            name: hashlib.sha256(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
            for name, tensor in tensors.items()
        }
        return data | _timeless(meta)
    if path.name == "provenance.json":
        return isinstance(json.loads(path.read_text()), list)  # with an entry for each session
    if path.name == "metrics.csv":
        return [line for line in path.read_text().splitlines() if ",time/" not in line]
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _timeless(inner)
            for name, inner in value.items()
            if name != "wall_seconds" and not name.startswith("time/")
        }
    return value
