"""The first updates of golden runs as numbers, which are the same on every processor up to rounding.

Processors add in different orders, and training amplifies the rounding errors: sooner or later an action is sampled
differently, and two runs diverge. This does not happen within the first updates.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from drest_torch.agent import Agent
from drest_torch.agents.checkpoints import algorithm_tensors
from drest_torch.algos.base import Algorithm
from drest_torch.config.compose import compose
from drest_torch.evaluate import levels_to_evaluate
from drest_torch.files import unlock_folder
from drest_torch.training.run import start

Stages = list[dict[str, float]]
UPDATES = 2

# A float32 is rounded by at most 2^-24 of its size. A number of an update is a sum over a thousand steps, with terms of
# about 1 that went forward and backward through a network. Its rounding errors have either sign and add up like a
# random walk. The tolerance is 2^8 errors in the same direction. With ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA and
# MKL_ENABLE_INSTRUCTIONS set to earlier processors, with one and two threads, numbers differed by at most 2^-20.
FLOAT32 = 2.0**-24 * 2**8
# Muon orthogonalises matrices in bfloat16, which is rounded by at most 2^-9; over hundreds of weights, rounding errors
# average out to a quarter of that. In float32 instead, steps differed by at most 2^-13.
BFLOAT16 = 2.0**-9 / 4
# Counts of steps or states beyond a threshold: a value close to the threshold may fall on either side.
COUNTS = ("policy/clip_fraction", "optim/states_", "rows/")
OF_COUNTS = 0.002


def beginning(folder: Path, overrides: list[str]) -> Stages:
    """Return an evaluation before training, the metrics of the first updates, and an evaluation after them."""
    run = start(compose(f"run_dir={folder}", *overrides))
    try:
        before = _weights(run.algorithm)
        stages = [run.task.watch(run.algorithm.policy)]
        for _ in range(UPDATES):
            metrics = run.update()
            stages.append(metrics | {"weights/change": math.dist(_weights(run.algorithm), before)})
        stages.append(run.task.watch(run.algorithm.policy))
    finally:
        run.task.close()
        unlock_folder(folder)
    with_muon = {"optim/uses_muon": float("muon" in run.algorithm.optimizers)}
    return [_rounded(stage) for stage in [with_muon, *stages]]


def means(_: Path, overrides: list[str]) -> Stages:
    """Return the mean metrics of the shipped agent with a private bit."""
    cfg = compose(*overrides, name="evaluate")
    agent = Agent.load("generalist-bit", device=cfg.device)
    results = agent.evaluate(levels_to_evaluate(agent, cfg.levels), memory_gib=cfg.memory_gib)
    return [_rounded(results.evaluation.means())]


def differences(stages: Stages, recorded: Stages) -> list[str]:
    """Return a sentence for each number that differs by more than rounding."""
    if [stage.keys() for stage in stages] != [stage.keys() for stage in recorded]:
        return ["the names of the numbers are not the recorded ones"]
    uses_muon = bool(stages[0].get("optim/uses_muon"))
    return [
        f"{name} {stage[name]:.9g} for {value:.9g}"
        for stage, expected in zip(stages, recorded, strict=True)
        for name, value in expected.items()
        if abs(stage[name] - value) > _tolerance(name, uses_muon) * max(1.0, abs(value))
    ]


def _tolerance(name: str, uses_muon: bool) -> float:
    if name.startswith(COUNTS):
        return OF_COUNTS
    return BFLOAT16 if uses_muon else FLOAT32


def _weights(algorithm: Algorithm) -> list[float]:
    tensors = algorithm_tensors(algorithm)
    networks = [tensors[name] for name in tensors if name.startswith(("policy.", "critic."))]
    return torch.cat([tensor.detach().double().reshape(-1) for tensor in networks]).tolist()


def _rounded(numbers: dict[str, Any]) -> dict[str, float]:
    return {name: float(f"{value:.9g}") for name, value in numbers.items() if not name.startswith("time/")}
