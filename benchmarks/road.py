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


def speed(checkout: Path, values: str, steps: int) -> float:
    """Return the steps per second of a run in this checkout, start and evaluations included."""
    from time import perf_counter

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "drest_torch.train", *values.split(), "logger=none", "progress=false"]
        command += [f"env_steps={steps}", f"run_dir={folder}/run"]
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        begun = perf_counter()
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
        taken = perf_counter() - begun
        if done.returncode:
            raise SystemExit(f"{checkout}, {values}: {done.stderr.strip()}")
        rows = Path(folder, "run", "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return float(json.loads(rows[-1])["step"]) / taken


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the medians of both checkouts, and their ratio, for each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.road", description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--steps", type=int, default=1_000_000, help="environment steps of a run")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--runs", nargs="+", default=RUNS, help="values of the configuration, a word for each run")
    given = parser.parse_args(arguments)
    checkouts = [HERE] if given.against is None else [HERE, given.against.resolve()]
    for values in given.runs:
        found: dict[Path, list[float]] = {checkout: [] for checkout in checkouts}
        for _ in range(given.repetitions):
            for checkout in checkouts:
                found[checkout].append(speed(checkout, values, given.steps))
        medians = [statistics.median(found[checkout]) for checkout in checkouts]
        said = " and ".join(f"{median:,.0f}" for median in medians)
        ratio = f"; ratio {medians[0] / medians[1]:.2f}" if len(medians) > 1 else ""
        print(f"{values}: {said} steps/s{ratio}", flush=True)


if __name__ == "__main__":
    main()
