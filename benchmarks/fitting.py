"""The largest map, level set, batch and number of lengths for a limit of memory, by the estimates of runs.

    python -m benchmarks.fitting 4              in GiB; two minutes

Each row increases one number of the default command. Runs are started for their estimates, but not trained. Where
memory is linear in the size, the largest size is extrapolated from the estimates of two others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.growing import AXES

QUIET = ("test.paper=false", "logger=none", "progress=false", "pictures=0", "threads=1")
FEW = ("levels.train=128", "levels.selection=20", "levels.test=20")
GIB = 2.0**30
PEAK = """
import sys
from drest_torch.config.compose import compose
from drest_torch.training.run import start
print(start(compose(*sys.argv[1:])).memory.peak)
"""


def across(side: int) -> list[str]:
    """Return the arguments for maps of this side, and mini-episodes as long as the way across them."""
    generator = {"height": side, "width": side, "shutdown": f"[{side},{side}]", "delay": f"[{side},{side}]"}
    words = [f"levels.generator.{key}={value}" for key, value in generator.items()]
    return [*FEW, *words, f"policy.time_steps={2 * side}"]


def lengths(power: int, folder: Path) -> list[str]:
    return AXES["lengths"].words(1 << power, folder)


def estimated(words: Sequence[str]) -> float:
    """Return the peak memory in bytes that a run estimates; infinity if it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PEAK, *words, *QUIET, f"run_dir={folder}/run"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
        return float("inf")
    return float(done.stdout.splitlines()[-1])


def largest(values: Sequence[int], words: Callable[[int], list[str]], limit: float) -> int:
    """Return the largest of increasing values that stays below a limit; the first value must do so."""
    fits, above = 0, len(values)
    while above - fits > 1:
        middle = (fits + above) // 2
        if estimated(words(values[middle])) <= limit:
            fits = middle
        else:
            above = middle
    return values[fits]


def in_proportion(sizes: tuple[int, int], words: Callable[[int], list[str]], limit: float, step: int) -> int:
    """Return the largest multiple of a step that stays below a limit, from the estimates of two sizes."""
    low, high = (estimated(words(size)) for size in sizes)
    per_unit = (high - low) / (sizes[1] - sizes[0])
    return int((sizes[0] + (limit - low) / per_unit) // step * step)


def main() -> None:
    """Print the table of largest sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gib", type=float)
    limit = parser.parse_args().gib * GIB
    small = "algo.episodes=2048"
    print("| what grows | largest |\n| --- | --- |")

    def row(name: str, value: int) -> None:
        print(f"| {name} | {value:,} |", flush=True)

    row("rows and columns of the map", largest(range(8, 24), across, limit))
    row(f"the same with `{small}`", largest(range(8, 40), lambda side: [*across(side), small], limit))
    row("training levels (`levels.train`)", in_proportion((20_000, 60_000), _levels, limit, 1_000))
    row("slots (`algo.episodes`)", in_proportion((65_536, 131_072), _slots, limit, 2_048))
    with tempfile.TemporaryDirectory() as folder:
        powers = largest(range(3, 11), lambda power: lengths(power, Path(folder)), limit)
    row("trajectory-lengths", 1 << powers)


def _levels(count: int) -> list[str]:
    return [f"levels.train={count}"]


def _slots(count: int) -> list[str]:
    return [*FEW, f"algo.episodes={count}"]


if __name__ == "__main__":
    main()
