"""How long the commands take to start, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from benchmarks.measuring import SECONDS, Bench, once

TITLE = "Start-up"
BASELINES = {"`import torch`": ["-c", "import torch"]}
COMMANDS = {
    "`from drest_torch import usefulness`": ["-c", "from drest_torch import usefulness"],
    "`python -m drest_torch.train --help`": ["-m", "drest_torch.train", "--help"],
    "`python -m drest_torch.study --help`": ["-m", "drest_torch.study", "--help"],
}


def run(bench: Bench) -> None:
    bench.table("From the start of the process to its end", "The first call finds files that nobody has read lately.")
    commands = {name: [sys.executable, *words] for name, words in (BASELINES | COMMANDS).items()}
    start = partial(subprocess.run, capture_output=True, check=True)
    works = {name: once(partial(start, words)) for name, words in commands.items()}
    bench.compare(bench.measure(works), SECONDS, baselines=list(BASELINES))
