"""All measurements of speed, in one command. A target that is missed makes it fail.

    python -m benchmarks.run                            everything (a quarter of an hour on two cores)
    python -m benchmarks.run --only stepping updating   some parts; the others stay as they were
    python -m benchmarks.run --quick                    in a minute, to see that it works; the figures mean nothing

The page is written after each part, so that nothing is lost when it is stopped.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import torch

from benchmarks.measuring import Bench
from benchmarks.page import missed_in, page_of, parts_of
from drest_torch.files import write_text

PARTS = (
    *("machine", "stepping", "collecting", "updating", "training", "evaluating"),
    *("solving", "tables", "starting", "scoring", "environments"),
)
PACKAGES = ("torch", "torchrl", "tensordict", "numpy", "numba", "gymnasium", "stable-baselines3")
KEPT, KEPT_QUICK = Path("docs/benchmarks.md"), Path("runs/benchmarks_quick.md")


def machine() -> str:
    """Where and with what it was measured."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES if _is_installed(name))
    hardware = f"{processor()}, {cores} cores, {memory:.3g} GiB; {platform.system()} {platform.machine()}"
    return f"{hardware}; Python {platform.python_version()}, {versions}; threads of torch: {torch.get_num_threads()}"


def processor() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search("model name\\s*: (.+)", info.read_text("utf-8")) if info.is_file() else None
    return found[1] if found else platform.processor()


def _is_installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def commit() -> str:
    """Of the repository that this file is in, with "dirty" where files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def measured(part: str, options: argparse.Namespace) -> str:
    """What a part has to say, as a section of the page."""
    module = importlib.import_module(f"benchmarks.{part}")
    bench = Bench(quick=options.quick)
    torch.manual_seed(0)
    began = time.perf_counter()
    module.run(bench)
    words = ["python", "-m", "benchmarks.run", "--only", part]
    words += ["--quick"] if options.quick else []
    day = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    how = f"`{shlex.join(words)}`: {time.perf_counter() - began:.0f} s, {day}, commit {commit()}. {machine()}."
    quick = ["**A quick run, which shows that the command works. Its figures mean nothing.**"] if options.quick else []
    return "\n\n".join([f"## {module.TITLE}", (module.__doc__ or "").strip(), how, *quick, *bench.blocks])


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="tiny sizes and two repeats")
    parser.add_argument("--page", type=Path, metavar="FILE", help=f"default {KEPT}; with --quick {KEPT_QUICK}")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Measure; return 1 if a target was missed."""
    options = arguments(given)
    path = options.page or (KEPT_QUICK if options.quick else KEPT)
    parts = parts_of(path.read_text(encoding="utf-8")) if path.is_file() else {}
    chosen = [part for part in PARTS if part in (options.only or PARTS)]
    missed: list[str] = []
    for index, part in enumerate(chosen, 1):
        print(f"\n=== {part} ({index} of {len(chosen)})", flush=True)
        parts[part] = measured(part, options)
        missed += [f"{part}, {line}" for line in missed_in(parts[part])]
        write_text(path, page_of({name: parts[name] for name in PARTS if name in parts}))
        print(f"    kept in {path}", flush=True)
    if options.quick:
        return 0
    print(f"\n{len(missed)} targets were missed", *missed, sep="\n  ")
    return int(bool(missed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nStopped; the parts that were done are kept.", file=sys.stderr)
        sys.exit(130)
