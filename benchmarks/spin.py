"""Two trainings with two threads each on the same cores, by how long OpenMP's threads spin.

Threads of torch that wait for each other spin, and take the core from the other training meanwhile.
``python -m benchmarks.spin`` prints the steps per second of one training alone and of two together, for each setting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {"GOMP_SPINCOUNT=0": "0", "GOMP_SPINCOUNT=2000": "2000", "as libgomp has it": "infinite"}
WORDS = ("algo=ppo", "logger=none", "progress=false", "pictures=0", "evaluations=4", "test.paper=false", "threads=2")


def train(folder: Path, spin: str, steps: int) -> subprocess.Popen[bytes]:
    """Start a training."""
    command = [sys.executable, "-m", "drest_torch.train", *WORDS, f"env_steps={steps}", f"run_dir={folder}"]
    environment = {**os.environ, "GOMP_SPINCOUNT": spin}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def measured(spin: str, steps: int, several: int) -> float:
    """Return the steps per second of so many trainings at once, without start and evaluation."""
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / str(index) for index in range(several)]
        for process in [train(folder, spin, steps) for folder in folders]:
            process.wait()
        speeds = []
        for folder in folders:
            rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
            times = [(row["step"], row["time/wall_seconds"]) for row in rows if "time/wall_seconds" in row]
            (first, begun), (last, ended) = times[0], times[-1]
            speeds.append((last - first) / (ended - begun))
        return sum(speeds)


def main() -> None:
    """Measure each setting in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000)
    args = parser.parse_args()
    for name, spin in SETTINGS.items():
        began = time.monotonic()
        alone, both = (measured(spin, args.steps, several) for several in (1, 2))
        print(f"{name:22} one {alone:8,.0f}   two together {both:8,.0f} steps/s   ({time.monotonic() - began:.0f} s)")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
