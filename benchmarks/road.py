"""Compare the training speed of this checkout and another one.

    python -m benchmarks.road --against ../old
    python -m benchmarks.road --against ../old --here precision=float32 precision=bfloat16 --runs "algo=ppo"

Each training is the whole command in a new process. In a repetition each variant trains once; the next repetition
reverses the order. Three figures are printed: the wall-clock seconds of the whole command; its processor seconds, which
other programs disturb less; and the steps per second between the first update and the last. A ratio of medians above 1
means that this checkout is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
RUNS = ("algo=ppo", "algo=ppo policy=convolutional", "algo=ppo policy=mlp policy.width=512")
FURTHER_RUNS = ("algo=a2c", "env=cartpole")
TARGETS = {
    (RUNS[0], "precision=float32"): 1.05,
    (RUNS[0], "precision=bfloat16"): 1.25,
    (RUNS[1], "precision=bfloat16"): 1.7,
    (RUNS[2], "precision=bfloat16"): 1.7,
}
"""The target for the ratio of whole commands against commit adec9930, by run and further arguments."""


@dataclass(frozen=True)
class Speed:
    """The speed of a training run."""

    seconds: float
    """Wall-clock seconds of the whole command."""
    processor_seconds: float
    """Processor seconds of the whole command."""
    steps: float
    """Steps per second between the first update and the last."""


@dataclass(frozen=True)
class Variant:
    """A checkout, and further arguments of its command."""

    checkout: Path
    words: str = ""

    @property
    def title(self) -> str:
        name = "here" if self.checkout == HERE else str(self.checkout)
        return f"{name} {self.words}".strip()


def train(words: Sequence[str], *, count: int = 1, checkout: Path = HERE, **variables: str) -> list[Speed]:
    """Run ``count`` trainings at the same time, with these environment variables; return their speeds."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), **variables}
    command = [sys.executable, "-m", "drest_torch.train", *words, "logger=none", "progress=false"]
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / str(index) for index in range(count)]
        began = time.perf_counter()
        processes = [
            subprocess.Popen([*command, f"run_dir={folder}"], cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
            for folder in folders
        ]
        speeds = []
        for process, folder in zip(processes, folders, strict=True):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"{checkout}, {' '.join(words)}: exit status {process.returncode}")
            seconds, processor_seconds = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
            speeds.append(Speed(seconds, processor_seconds, steps_per_second(folder / "metrics.jsonl")))
        return speeds


def steps_per_second(metrics: Path) -> float:
    """Return the steps per second of a run between its first update and its last."""
    rows = [json.loads(line) for line in metrics.read_text("utf-8").splitlines()]
    times = [(row["step"], row["time/wall_seconds"]) for row in rows if "time/wall_seconds" in row]
    (first_step, first_time), (last_step, last_time) = times[0], times[-1]
    return (last_step - first_step) / (last_time - first_time)


def compare(run: str, variants: Sequence[Variant], steps: int, repetitions: int) -> list[list[Speed]]:
    """Train the variants of a run in turn; return the speeds of each."""
    speeds: list[list[Speed]] = [[] for _ in variants]
    order = list(range(len(variants)))
    for _ in range(repetitions):
        for index in order:
            variant = variants[index]
            words = [*run.split(), *variant.words.split(), f"env_steps={steps}"]
            speeds[index] += train(words, checkout=variant.checkout)
        order.reverse()
    return speeds


def median(speeds: Sequence[Speed]) -> Speed:
    """Return the median of each figure."""
    columns = zip(*(astuple(speed) for speed in speeds), strict=True)
    return Speed(*(statistics.median(column) for column in columns))


def report(run: str, variants: Sequence[Variant], medians: Sequence[Speed], *, has_baseline: bool) -> None:
    """Print the medians of each variant; with ``has_baseline`` the last variant is the baseline."""
    print(run, flush=True)
    for variant, speed in zip(variants, medians, strict=True):
        line = f"  {variant.title:28} {speed.seconds:8.1f} s {speed.processor_seconds:8.1f} s of processors"
        line += f" {speed.steps:12,.0f} steps/s"
        if has_baseline and variant != variants[-1]:
            baseline = medians[-1]
            ratio = baseline.seconds / speed.seconds
            line += f"   whole command {ratio:.2f} ×"
            line += f", its processors {baseline.processor_seconds / speed.processor_seconds:.2f} ×"
            line += f", training {speed.steps / baseline.steps:.2f} ×"
            target = TARGETS.get((run, variant.words))
            if target is not None:
                reached = "reached" if ratio >= target else "missed"
                line += f"   target ≥ {target} ×: {reached}"
        print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the medians of all variants of each run, and the speed-up of this checkout."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.road", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--here", nargs="+", default=[""], help="words for this checkout only; one string a variant")
    parser.add_argument("--steps", type=int, default=4_000_000, help="environment steps of a run")
    parser.add_argument("--repetitions", type=int, default=3)
    further = ", ".join(f"'{run}'" for run in FURTHER_RUNS)
    parser.add_argument("--runs", nargs="+", default=RUNS, help=f"runs, one string each; also of interest: {further}")
    options = parser.parse_args(arguments)
    variants = [Variant(HERE, words) for words in options.here]
    if options.against:
        variants.append(Variant(options.against.resolve()))
    for run in options.runs:
        speeds = compare(run, variants, options.steps, options.repetitions)
        report(run, variants, [median(of_variant) for of_variant in speeds], has_baseline=bool(options.against))


if __name__ == "__main__":
    main()
