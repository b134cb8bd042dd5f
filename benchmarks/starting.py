"""The time until the commands have started, each in a new process with one thread."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.measuring import SECONDS, Bench, once

TITLE = "Start-up"
TORCHRL = "import gc; gc.disable(); import torch, torchrl.envs, torchrl.modules, torchrl.collectors, torchrl.objectives"
"""The imports that every run needs, executed without garbage collection, as in the commands."""
FIRST_UPDATE = """
import os
from drest_torch import train

with train.importing():
    from drest_torch.training.run import Run

Run.update = lambda run: os._exit(0)
train.main()
"""
"""A run that ends before its first update."""
BASELINES = {"`import torch`": ["-c", "import torch"], "`import torchrl` and its parts": ["-c", TORCHRL]}
COMMANDS = {
    "`from drest_torch import usefulness`": ["-c", "from drest_torch import usefulness"],
    "`python -m drest_torch.train --help`": ["-m", "drest_torch.train", "--help"],
    "`python -m drest_torch.study --help`": ["-m", "drest_torch.study", "--help"],
    "`python -m drest_torch.train algo=ppo logger=none`, to its first update": [
        *("-c", FIRST_UPDATE, "algo=ppo", "logger=none", "threads=1"),
        "run_dir=run_${now:%H-%M-%S-%f}",
    ],
}


def run(bench: Bench) -> None:
    bench.table(
        "From the start of the process to its end",
        "The first call finds files that nobody has read lately. A run evaluates its untrained policy before its first "
        "update, which is a third of what it takes besides the imports.",
    )
    with tempfile.TemporaryDirectory() as folder:
        start = partial(in_process, Path(folder))
        works = {name: once(partial(start, words)) for name, words in (BASELINES | COMMANDS).items()}
        bench.compare(bench.measure(works), SECONDS, baselines=list(BASELINES))


def in_process(folder: Path, words: Sequence[str]) -> None:
    """Run Python with one thread in a folder."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | threads | {"PYTHONPATH": paths}
    subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, check=True)
