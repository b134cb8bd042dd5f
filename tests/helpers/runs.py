"""Training runs for tests, and their comparison."""

import itertools
import os
import signal
from pathlib import Path

import torch

from drest_torch.agents.checkpoints import load_checkpoint, step_checkpoints
from drest_torch.config.compose import compose
from drest_torch.files import read_metrics
from drest_torch.training.run import start

WITHOUT_EPISODES = ("policy.width=8", "policy.depth=1", "env_steps=2000", "evaluations=2", "pictures=0")
SMALLEST = (*WITHOUT_EPISODES, "algo.episodes=64", "reward.group=16")
QUIET = ("logger=none", "progress=false", "test.paper=false")
TINY = ["policy.width=16", "policy.depth=1", "logger=none", "progress=false", "pictures=1"]
WORLD = ["levels=example", "test.paper=false", "env_steps=6000", "evaluations=4", *TINY]
FEW = ["levels=generated", "levels.train=40", "levels.selection=10", "levels.test=10"]


def small(folder: Path, *overrides: str):
    return compose("levels=example", *SMALLEST, *QUIET, *overrides, values=in_folder(folder))


def configured(folder, *overrides):
    _, *others = arguments(folder, *overrides)
    return compose(*others, values=in_folder(folder))


def in_folder(folder):
    """Return the folder of a run as a value, not an argument: compositions are cached by their arguments."""
    return {"run_dir": str(folder)}


def weights(folder):
    tensors, _ = load_checkpoint(step_checkpoints(folder / "checkpoints")[-1])
    return tensors


def metrics(folder):
    """Return the logged metrics of a run without wall-clock times."""
    rows = read_metrics(folder / "metrics.jsonl")
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]


def same_run(run, other):
    """Check that two runs have the same weights and metrics."""
    first, second = weights(run), weights(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert metrics(run) == metrics(other)


def stop_after(run, updates, monkeypatch):
    """Press Ctrl-C during the update with this number."""
    update, number = run.update, itertools.count(1)

    def counted():
        if next(number) == updates:
            os.kill(os.getpid(), signal.SIGINT)
        return update()

    monkeypatch.setattr(run, "update", counted)


def train(folder: Path, *overrides: str) -> Path:
    smallest = WITHOUT_EPISODES if "algo=exact" in overrides else SMALLEST
    start(compose(*smallest, *QUIET, *overrides, values=in_folder(folder))).train()
    return folder


def arguments(folder, *overrides):
    plays = {"algo=exact", "algo=distil"}.isdisjoint(overrides)
    batch = ["algo.episodes=128"] if plays else []
    return [f"run_dir={folder}", *WORLD, *batch, *overrides]
