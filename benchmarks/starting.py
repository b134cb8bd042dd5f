"""How long the commands take to start, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measuring import SECONDS, Bench, Work, once

TITLE = "Start-up"
BASELINES = {"`import torch`": ["-c", "import torch"]}
COMMANDS = {
    "`from drest_torch import usefulness`": ["-c", "from drest_torch import usefulness"],
    "`python -m drest_torch.train --help`": ["-m", "drest_torch.train", "--help"],
    "`python -m drest_torch.study --help`": ["-m", "drest_torch.study", "--help"],
}


def process(arguments: list[str]) -> Work:
    return once(lambda: subprocess.run([sys.executable, *arguments], capture_output=True, check=True))


def run(bench: Bench) -> None:
    bench.table("From the start of the process to its end", "The first call finds files that nobody has read lately.")
    times = bench.measure({name: process(arguments) for name, arguments in (BASELINES | COMMANDS).items()})
    bench.compare(times, SECONDS, baselines=list(BASELINES))
