"""Compare the steps per second of training with those of another checkout: python -m benchmarks.road --against PATH

Each repetition trains in both checkouts, one after the other, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
RUNS = ("algo=ppo", "algo=ppo policy=convolutional", "algo=a2c", "env=cartpole")


def speed(words: Sequence[str], several: int = 1, checkout: Path = HERE, **variables: str) -> float:
    """Return the steps per second of so many trainings at once, without start and first evaluation."""
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / str(index) for index in range(several)]
        command = [sys.executable, "-m", "drest_torch.train", *words, "logger=none", "progress=false"]
        environment = {**os.environ, "PYTHONPATH": str(checkout), **variables}
        how = {"cwd": checkout, "env": environment, "stdout": subprocess.DEVNULL}
        for process in [subprocess.Popen([*command, f"run_dir={folder}"], **how) for folder in folders]:
            if process.wait():
                raise SystemExit(f"{checkout}, {' '.join(words)}: exit status {process.returncode}")
        total = 0.0
        for folder in folders:
            rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
            times = [(row["step"], row["time/wall_seconds"]) for row in rows if "time/wall_seconds" in row]
            total += (times[-1][0] - times[0][0]) / (times[-1][1] - times[0][1])
        return total


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the medians of both checkouts, and their ratio, for each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.road", description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--steps", type=int, default=1_000_000, help="environment steps of a run")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--runs", nargs="+", default=RUNS, help="values of the configuration, a word for each run")
    given = parser.parse_args(arguments)
    checkouts = [HERE, *([given.against.resolve()] if given.against else [])]
    for values in given.runs:
        words = [*values.split(), f"env_steps={given.steps}"]
        found = [[speed(words, checkout=each) for each in checkouts] for _ in range(given.repetitions)]
        medians = [statistics.median(column) for column in zip(*found, strict=True)]
        ratio = f"; ratio {medians[0] / medians[1]:.2f}" if len(medians) > 1 else ""
        print(f"{values}: {' and '.join(f'{median:,.0f}' for median in medians)} steps/s{ratio}", flush=True)


if __name__ == "__main__":
    main()
